"""Queries without Spark, as far as a query group looks at them; their checkpoints are real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.query_group import QueryGroup
from airflow_stream_provider.runtime.writer_spec import WriterSpec


class Time:
    """A clock that stands still until it is told otherwise."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


def at_once(fn: Callable[[], Any], name: str) -> Future[Any]:
    """Do what `bounded.start` would begin in a thread."""
    future: Future[Any] = Future()
    try:
        future.set_result(fn())
    except Exception as error:  # noqa: BLE001 - raised where the result is awaited
        future.set_exception(error)
    return future


class Run:
    """A query that Spark runs, until it is told otherwise."""

    isActive = True

    def __init__(self) -> None:
        self.runId = str(uuid4())
        self.error: Exception | None = None
        # The batches of which it has said something, oldest first.
        self.said: list[int] = []
        self._jsq = SimpleNamespace(lastProgress=lambda: None, recentProgress=self._recent)

    def _recent(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(batchId=lambda n=batch: n) for batch in self.said]

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class Query:
    """A managed query on a real checkpoint, as far as the group looks at it."""

    over = context_stopped = has_got_on = False
    writer_spec = WriterSpec()
    begun_at: float | None = None

    def __init__(self, checkpoint: Path, label: str = "orders") -> None:
        self.label = label
        self.checkpoint = str(checkpoint)
        self.real: Run | None = None
        self.starts = 0
        self.refuses: Exception | None = None

    def start_real(self) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.starts += 1
        self.real = Run()

    def forget_run(self) -> None:
        self.real = None

    def fails(self, error: str) -> None:
        assert self.real is not None
        self.real.isActive, self.real.error = False, ValueError(error)

    def commits(self, batch: int) -> None:
        for log in ("offsets", "commits"):
            folder = Path(self.checkpoint) / log
            folder.mkdir(parents=True, exist_ok=True)
            (folder / str(batch)).touch()

    @contextmanager
    def unlisted(self) -> Iterator[None]:
        """Let its commits be in what is no folder, and cannot be listed, meanwhile."""
        commits = Path(self.checkpoint) / "commits"
        folder = commits.rename(commits.with_name("away"))
        commits.touch()
        yield
        commits.unlink()
        folder.rename(commits)


def group_of(*queries: Query, claim: Callable[[str], None] = lambda location: None, **more: Any) -> QueryGroup:
    gate: Any = Gate()
    gate.queries += queries
    return QueryGroup(gate, claim, **more)


def started(query: Query) -> QueryGroup:
    group = group_of(query)
    group.start(group.hold(), {})
    return group


def tended(group: QueryGroup) -> tuple[Any, Any]:
    """What a look at the queries says once all failures are noted, which the look before it has begun."""
    group.tend()
    for noting in group._starts._noting.values():
        noting.result(60)
    return group.tend()

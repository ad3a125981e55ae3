"""Record, while a run goes on, what is purged or replaced before its end: batches, records and heartbeats."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.logs import kafka_offsets, numeric_names, read_offsets
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.record import Record
from chaos.batches import Batch
from chaos.patience import answered
from chaos.sightings import Sighting
from devstack.audit import end_offsets
from devstack.commits import CommitWatcher, written_at

# Spark keeps 100 batches, and the shortest trigger here is a second.
LOOK_SECONDS = 0.5
# What a look that hangs is waited for at the end.
END_SECONDS = 10.0
INPUT = "orders"


class RecordedLog(Protocol):
    """A control log, of which all is recorded that it ever said."""

    @property
    def folder(self) -> Path | None:
        """The stream's folder under the control root; None: there is none."""

    records: list[tuple[Record, float]]
    """Its records, each with the time at which it was written."""
    sightings: dict[str, Sighting]
    """What the heartbeats have said, by incarnation."""

    @property
    def looks(self) -> Sequence[Callable[[], None]]:
        """What looks once for what is new, each to be called in a thread of its own again and again.

        :raises OSError, StreamError: nothing can be read now.
        """

    def gaps(self) -> list[str]:
        """Return which records nobody read, which are missing and which have changed since, each as a sentence."""


class Evidence:
    """Records batches, records and heartbeats while its `with` block runs, in daemon threads.

    Nothing that hangs, is away or damaged ends it: it looks again. Times are those of who stores it, by the clock of
    the kernel: a driver whose own clock jumps changes none of them.

    :param brokers: bootstrap servers of Kafka.
    :param checkpoints: folder of each query's checkpoint, by name of the query. They need not exist yet.
    :param releases: folder of the stream's releases.
    :param log: the stream's control log.
    :param folder: folder of the run, with the journal of its producer.
    :param table: the database of the query that writes a table; empty: there is none.
    """

    def __init__(
        self,
        brokers: str,
        checkpoints: Mapping[str, Place],
        releases: Place,
        log: RecordedLog,
        folder: Path,
        table: str = "",
    ) -> None:
        self.brokers = brokers
        self.checkpoints = dict(checkpoints)
        self.releases = releases
        self.log = log
        self.folder = folder
        self.table = table
        self._died: list[str] = []
        self._commits = CommitWatcher(self.checkpoints)
        self._planned: dict[str, dict[int, tuple[Mapping[int, int], float]]] = {q: {} for q in self.checkpoints}
        self._stopped = threading.Event()
        self._looks = (self._look_at_checkpoints, *log.looks)
        self._threads = [threading.Thread(target=self._run, args=(look,), daemon=True) for look in self._looks]

    def __enter__(self) -> Evidence:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopped.set()
        until = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def look(self) -> None:
        """Look once more at everything, in this thread; after the `with` block, when nothing hangs any more.

        :raises OSError, StreamError: something does not answer for a minute.
        """
        for look in self._looks:
            answered(look)

    def gaps(self) -> list[str]:
        """Return what was not recorded as it was, each as a sentence; after the `with` block.

        These are records of the control log that nobody read or that have changed since, and looks that raised.
        """
        return [*self._died, *self.log.gaps()]

    def batches(self, query: str) -> list[Batch]:
        """Return what is known of a query's batches, oldest first."""
        commits = dict(self._commits.commits[query])
        planned = dict(self._planned[query])
        return [Batch(number, *planned[number], commits.get(number)) for number in sorted(planned)]

    def unread(self) -> str:
        """Return what the stream has not committed yet of its input, as a sentence; empty when that is nothing."""
        ends = end_offsets(self.brokers, INPUT)
        answered(self._look_at_checkpoints)
        for query in self.checkpoints:
            done = [batch for batch in self.batches(query) if batch.committed is not None]
            read = done[-1].ends if done else {}
            if read != ends:
                return f"{query} has committed {dict(read)} of {INPUT}, which ends at {ends}."
        return ""

    def _run(self, look: Callable[[], None]) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                with contextlib.suppress(OSError, StreamError):
                    look()
            except Exception as error:
                self._died.append(f"The recorder stopped looking ({look.__name__}): {error!r}. Mend it.")
                raise

    def _look_at_checkpoints(self) -> None:
        for query, folder in self.checkpoints.items():
            known = self._planned[query]
            for batch in numeric_names(folder / "offsets"):
                path = folder / "offsets" / str(batch)
                # Purged since it was listed, or just being written.
                with contextlib.suppress(FileNotFoundError, StreamError):
                    if batch not in known:
                        sources = [kafka_offsets(text) or {} for text in read_offsets(path).sources.values()]
                        planned = written_at(path)
                        if planned is not None:
                            known[batch] = (sources[0].get(INPUT, {}), planned)
        self._commits.look()

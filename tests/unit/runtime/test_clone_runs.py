"""When a run on a clone ends, and as what. Spark is pretended; real runs are in tests/integration/runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.runtime import clone_runs
from airflow_stream_provider.runtime.clone_runs import SENTINEL, CloneRuns, TooSlow

BUSY, LOOKS = "Processing new data", "Getting offsets from KafkaV2[Subscribe[orders]]"


BEGAN = 100.0  # when each test does, on the clock of the runs


class Run:
    """A run of a query that has ended so many batches by its second look, and then does what it is told.

    :param says: what it says of itself, one look after the other; the last one for good.
    """

    def __init__(
        self, batches: int = 0, *, active: bool = True, says: Sequence[str] = (BUSY,), error: str = ""
    ) -> None:
        self._batches, self._looks = batches, 0
        self.isActive, self._says = active, list(says)
        self._error = RuntimeError(error) if error else None
        self.stopped = False
        self._jsq = SimpleNamespace(recentProgress=self._progress)

    def _progress(self) -> list[Any]:
        self._looks += 1
        idle = {"batchId": 1, "durationMs": {"triggerExecution": 1}}
        ran = {"batchId": 1, "durationMs": {"addBatch": 1}}
        found = [idle, *[ran] * (self._batches if self._looks > 1 else 0)]
        return [SimpleNamespace(json=lambda each=each: json.dumps(each)) for each in found]

    @property
    def status(self) -> dict[str, str]:
        return {"message": self._says.pop(0) if len(self._says) > 1 else self._says[0]}

    def exception(self) -> Exception | None:
        return self._error

    def awaitTermination(self, seconds: int) -> bool:
        if self._error:
            raise self._error
        return not self.isActive

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes while a run is waited for and at no other time, however busy the machine is."""
    now = [BEGAN]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    time = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(clone_runs, "time", time)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the sinks of the runs were."""
    found: list[Any] = []
    writer = SimpleNamespace(format=found.append, foreachBatch=found.append)
    monkeypatch.setattr(clone_runs, "rehearsal_writer", lambda writer_of_query, clone: writer)
    monkeypatch.setattr(checkpoints, "clone_logs", lambda checkpoint, clone, id: None)
    return found


QUERY: Any = SimpleNamespace(
    label="out", checkpoint="/data/out", writer=None, writer_spec=SimpleNamespace(foreach_batch=print, sink="noop")
)


def runs(monkeypatch: pytest.MonkeyPatch, run: Run, left: float = 60.0, **policy: Any) -> CloneRuns:
    monkeypatch.setattr(clone_runs, "start_ungated", lambda writer: run)
    gate: Any = SimpleNamespace(hide=lambda id: None)
    made = CloneRuns(gate, Policy.from_json(policy))
    made.deadline = BEGAN + left
    return made


def test_batches_run_until_there_are_enough_of_them(monkeypatch: pytest.MonkeyPatch, written: list[Any]) -> None:
    run = Run(3)
    found = runs(monkeypatch, run).batches(QUERY, "/c", 3)
    assert [batch["durationMs"] for batch in found] == [{"addBatch": 1}] * 3
    assert (run.stopped, written) == (True, ["noop"])


@pytest.mark.parametrize(
    "run",
    [
        Run(1, active=False),
        Run(1, says=["Waiting for data to arrive"]),
        Run(1, says=[LOOKS, BUSY, "Waiting for next trigger", LOOKS]),
    ],
    ids=["ended", "idle", "looks for data nearly all of the time"],
)
def test_fewer_batches_than_wanted_are_enough_where_no_more_come(
    monkeypatch: pytest.MonkeyPatch, written: list[Any], run: Run
) -> None:
    monkeypatch.setattr(clone_runs, "IDLE_SECONDS", 0.3)
    assert len(runs(monkeypatch, run).batches(QUERY, "/c", 3)) <= 1
    assert run.stopped


@pytest.mark.parametrize("says", [BUSY, LOOKS, "Initializing sources"])
def test_batches_that_do_not_end_in_time_are_too_slow(
    monkeypatch: pytest.MonkeyPatch, written: list[Any], says: str
) -> None:
    """One that only comes to look for data for the first time has not found that there is none."""
    monkeypatch.setattr(clone_runs, "IDLE_SECONDS", 0.0)
    run = Run(1, says=[says])
    with pytest.raises(TooSlow, match="Only 1 of 3 batches of out ran"):
        runs(monkeypatch, run, left=0.3).batches(QUERY, "/c", 3)
    assert run.stopped


def test_a_batch_that_fails_refuses_the_release_by_the_name_of_its_query(
    monkeypatch: pytest.MonkeyPatch, written: list[Any]
) -> None:
    run = Run(error="Boom.")
    with pytest.raises(RehearsalRefused, match=r"The query out fails on live data: .*Boom\."):
        runs(monkeypatch, run).batches(QUERY, "/c", 3)
    assert run.stopped


def test_the_function_of_the_user_gets_batches_only_where_it_is_safe(
    monkeypatch: pytest.MonkeyPatch, written: list[Any]
) -> None:
    runs(monkeypatch, Run(1), foreach_batch_safe=True).batches(QUERY, "/c", 1)
    assert written == [print]


def test_a_plan_that_reaches_its_sink_is_accepted_and_any_other_error_refuses(
    monkeypatch: pytest.MonkeyPatch, written: list[Any]
) -> None:
    made = runs(monkeypatch, Run(error=f"foreachBatch: {SENTINEL}"))
    assert made.plan(QUERY, "/c") >= 0
    assert len(made.ids) == 1
    with pytest.raises(RehearsalRefused, match="Spark refuses to run the query out"):
        runs(monkeypatch, Run(error="The schema of the state has changed.")).plan(QUERY, "/c")


@pytest.mark.parametrize(
    ("active", "error", "says"),
    [
        (False, RehearsalRefused, "The rehearsal of out ended without planning a batch"),
        (True, TooSlow, "Spark did not plan a batch of out within 180 s"),
    ],
)
def test_a_plan_that_was_not_tried_refuses_or_says_that_it_was_not_seen(
    monkeypatch: pytest.MonkeyPatch, written: list[Any], active: bool, error: type[Exception], says: str
) -> None:
    run = Run(active=active)
    with pytest.raises(error, match=says):
        runs(monkeypatch, run).plan(QUERY, "/c")
    assert run.stopped

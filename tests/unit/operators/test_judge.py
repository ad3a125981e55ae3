"""A rehearsal beside what the holder does: what is refused, and what is shown."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.operators.judge import JudgeRehearsalOperator, compare_speed
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.snapshots import BOTH
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, record, write
from tests.support.tasks import run


def rehearsed(seconds: float | None) -> list[Any]:
    rehearsal = {"queries": {"a": {"last_batch_seconds": seconds, "rows_per_second": 5.0}}, "notes": ["a note"]}
    up = record("standby", deployment=NEW_DEPLOYMENT, incarnation=NEW, queries=[], rehearsal=rehearsal)
    return [*BOTH[:-1], up]


def judge(spec: StreamSpec) -> Any:
    return run(JudgeRehearsalOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT))


@pytest.mark.parametrize(("seconds", "good"), [(0.5, True), (10.0, True), (None, True), (10.5, False)])
def test_a_standby_that_would_be_late_at_once_is_refused(
    spec: StreamSpec, log: ControlLog, seconds: float | None, good: bool
) -> None:
    write(log, *rehearsed(seconds))
    if good:
        assert judge(spec)["notes"] == ["a note"]
        return
    with pytest.raises(AirflowFailException, match=r"The query a took 10.5 s for a batch of live data; .* 10 s behind"):
        judge(spec)


def test_without_a_limit_nothing_is_late(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *rehearsed(500.0))
    free = spec.model_copy(update={"lag": spec.lag.model_copy(update={"max_seconds": None})})
    assert judge(free)["queries"]["a"]["rehearsed_seconds"] == 500.0


def test_the_holders_batches_stand_beside_the_rehearsed_ones(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *rehearsed(0.5))
    progress = QueryProgress("a", batch_seconds=0.4, rows_per_second=7.0)
    log.beat(OLD, Heartbeat(queries=(progress,)))
    assert judge(spec)["queries"] == {
        "a": {
            "rehearsed_seconds": 0.5,
            "rehearsed_rows_per_second": 5.0,
            "holder_seconds": 0.4,
            "holder_rows_per_second": 7.0,
        }
    }


def test_what_was_not_rehearsed_is_refused(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH[:-1])
    with pytest.raises(AirflowFailException, match=f"{NEW_DEPLOYMENT} has not been rehearsed"):
        judge(spec)


def test_what_one_side_does_not_know_is_none() -> None:
    found = compare_speed({"new": {}, "a": {"last_batch_seconds": 1.0}}, [QueryProgress("a"), QueryProgress("gone")])
    assert list(found) == ["new", "a"]
    assert set(found["new"].values()) == {None}
    assert (found["a"]["rehearsed_seconds"], found["a"]["holder_seconds"]) == (1.0, None)

"""A soak against a real control log: what it waits for, and what it makes of the end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Batch, Heartbeat, QueryProgress
from airflow_stream_provider.operators.upgrade import SoakOperator
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.snapshots import BOTH, UPGRADED
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, write
from tests.support.tasks import IDENTITY, context, run, waits


def soak(spec: StreamSpec, **settings: Any) -> SoakOperator:
    return SoakOperator(task_id="t", stream=spec, family="new", **settings)


def test_a_bad_soak_leaves_its_reason_for_the_roll_back(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    pushed: dict[str, Any] = {}
    bad = WaitOutcome(Ended.BAD, NEW_DEPLOYMENT, "It is behind.", {"samples": 7})
    with pytest.raises(AirflowFailException, match=r"Release 1 .* is no good: It is behind\. Roll back\."):
        soak(spec).resume(context(pushed), bad.to_event())
    assert pushed["fault"] == "It is behind."


@pytest.mark.parametrize(("reason", "result"), [("", "good"), ("Another took over.", "superseded")])
def test_a_soak_that_ends_well_leaves_no_fault(spec: StreamSpec, log: ControlLog, reason: str, result: str) -> None:
    write(log, *UPGRADED)
    pushed: dict[str, Any] = {}
    event = WaitOutcome(Ended.REACHED, NEW_DEPLOYMENT, reason, {"samples": 7}).to_event()
    found = soak(spec).resume(context(pushed), event)
    assert (found["result"], found["samples"], found["note"]) == (result, 7, reason)
    assert "fault" not in pushed


def test_a_soak_whose_lag_stayed_unknown_fails_without_a_fault(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    pushed: dict[str, Any] = {}
    over = WaitOutcome(Ended.TIMEOUT, reason="Timed out waiting for it. Last problem: The lag is not known: no Kafka.")
    with pytest.raises(AirflowFailException, match="The lag is not known: no Kafka"):
        soak(spec).resume(context(pushed), over.to_event())
    assert "fault" not in pushed
    assert "The lag is not known: no Kafka" in pushed["inconclusive"]


def test_a_soak_counts_from_the_moment_the_release_took_over(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)  # its records are of the second 100
    condition = waits(soak(spec, seconds=60.0))
    assert (condition["until"], condition["run"]) == (160.0, IDENTITY.run)
    assert condition["limits"]["lag"]["max_seconds"] == 10


def test_without_kafka_no_lag_is_judged(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    assert waits(soak(spec.model_copy(update={"kafka": None})))["limits"]["lag"] is None


def test_of_a_release_that_reads_again_neither_lag_nor_pace_is_judged(spec: StreamSpec, log: ControlLog) -> None:
    wanted = {"to": 1764000000.0, "queries": {"a": {"orders": {"0": 7}}}}
    for each in UPGRADED:
        if each.kind == "declared" and each["deployment"] == NEW_DEPLOYMENT:
            each = replace(each, fields={**each.fields, "rewind": wanted})
        write(log, each)
    assert waits(soak(spec))["limits"]["lag"] is None
    log.beat(OLD, batches(1.0))
    log.beat(NEW, batches(60.0))
    pushed: dict[str, Any] = {}
    assert soaked(spec, log, pushed)["result"] == "good"
    assert pushed == {}


@pytest.mark.parametrize(
    ("settings", "waits"), [({}, 900.0), ({"seconds": 60.0}, 960.0), ({"seconds": 60.0, "wait_seconds": 70.0}, 70.0)]
)
def test_it_waits_longer_than_it_soaks(spec: StreamSpec, settings: dict[str, float], waits: float) -> None:
    assert soak(spec, **settings).wait_seconds - (0 if settings else spec.upgrade.soak) == waits


def test_a_release_that_never_held_has_no_soak(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    with pytest.raises(AirflowFailException, match=f"{NEW_DEPLOYMENT} never held the stream"):
        run(soak(spec))


def batches(seconds: float, *, every: float = 4.0, **more: Any) -> Heartbeat:
    """A driver that reads 1000 rows in so many seconds, every so often."""
    ran = tuple(Batch(n, n * every, seconds, 1000) for n in range(10))
    return Heartbeat(queries=(QueryProgress("a", batch=9, batches=ran, rows_exact=True, **more),))


def soaked(spec: StreamSpec, log: ControlLog, pushed: dict[str, Any]) -> Any:
    event = WaitOutcome(Ended.REACHED, NEW_DEPLOYMENT, "", {"samples": 7, "lag_records": 3}).to_event()
    return soak(spec).resume(context(pushed), event)


def test_a_release_that_keeps_the_limits_is_compared_with_the_one_before(
    spec: StreamSpec, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *UPGRADED)
    log.beat(OLD, batches(1.0))
    log.beat(NEW, batches(1.5))
    pushed: dict[str, Any] = {}
    found = soaked(spec, log, pushed)
    assert (found["result"], found["lag_records"]) == ("good", 3)
    assert pushed["comparison"]["queries"]["a"]["slower"] == 1.5
    assert "a: the new release is about as fast as the old one." in capsys.readouterr().out
    json.dumps(pushed)


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (
            batches(9.0, every=9.0),
            r"9\.0 times slower than the old one: it processes 111 rows a second, and 250 come in, which is too slow",
        ),
        (batches(1.0, failures=4), "it has failed 4 times and was started again"),
    ],
)
def test_what_is_worse_than_before_and_within_the_limits_is_left_to_a_person(
    spec: StreamSpec, log: ControlLog, new: Heartbeat, says: str
) -> None:
    write(log, *UPGRADED)
    log.beat(OLD, batches(1.0, failures=0))
    log.beat(NEW, new)
    pushed: dict[str, Any] = {}
    with pytest.raises(AirflowFailException, match=f"inconclusive, and nothing is rolled back.*{says}.*roll-back"):
        soaked(spec, log, pushed)
    assert says.replace("\\", "") in pushed["inconclusive"]
    assert pushed["comparison"]["verdict"] != "pass"
    assert "fault" not in pushed, "the roll-back takes it for a reason"


def test_a_release_that_was_superseded_is_not_compared(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    log.beat(OLD, batches(1.0))
    log.beat(NEW, batches(9.0))
    pushed: dict[str, Any] = {}
    event = WaitOutcome(Ended.REACHED, NEW_DEPLOYMENT, "Another took over.", {}).to_event()
    assert soak(spec).resume(context(pushed), event)["result"] == "superseded"
    assert pushed == {}


def test_a_bad_release_is_compared_all_the_same(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    log.beat(OLD, batches(1.0))
    log.beat(NEW, batches(9.0))
    pushed: dict[str, Any] = {}
    with pytest.raises(AirflowFailException, match="is no good: It is behind"):
        soak(spec).resume(context(pushed), WaitOutcome(Ended.BAD, NEW_DEPLOYMENT, "It is behind.").to_event())
    assert pushed["fault"] == "It is behind."
    assert "inconclusive" not in pushed
    assert pushed["comparison"]["verdict"] == "inconclusive"

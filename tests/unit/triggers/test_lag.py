"""What the trigger tells when a lag meets its condition, and that many ask Kafka as often as one."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.planning.lag_conditions import CaughtUp, Measured, WithinLimits
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.triggers.lag import MISSING_LOOKS, LagTrigger
from tests.support.watched_kafka import LIMITS, WatchedKafka, target, until


def trigger(condition: Any = None, seconds: float = 30.0, interval: float = 0.2, **more: Any) -> LagTrigger:
    condition = (condition or WithinLimits(LIMITS.to_json())).to_json()
    return LagTrigger(target(**more).to_json(), condition, interval, time.time() + seconds)


async def outcome(found: LagTrigger) -> WaitOutcome:
    (event,) = [event async for event in found.run()]
    return WaitOutcome.from_event(json.loads(json.dumps(event.payload)))


def outcomes(*triggers: LagTrigger) -> list[WaitOutcome]:
    async def collect() -> list[WaitOutcome]:
        return list(await asyncio.gather(*(outcome(each) for each in triggers)))

    return asyncio.run(collect())


def test_it_survives_the_metadata_database() -> None:
    made = trigger(CaughtUp(LagLimits().to_json(), 5.0))
    path, kwargs = made.serialize()
    assert path == "airflow_stream_provider.triggers.lag.LagTrigger"
    assert LagTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_it_never_acts_when_it_is_cleaned_up_or_killed() -> None:
    assert not {"cleanup", "on_kill"} & {*vars(LagTrigger)}


def test_what_is_found_is_said_once_with_the_evidence_and_the_deadline(kafka: WatchedKafka) -> None:
    kafka.finds = [20, 10]
    made = trigger(WithinLimits(LIMITS.to_json(), seconds=60.0))
    (found,) = outcomes(made)
    assert (found.ended, found.subject, found.deadline) == (Ended.REACHED, "orders", made.deadline)
    assert found.evidence["records"] == 10
    assert len(kafka.reads) == 2


def test_five_hundred_triggers_ask_kafka_as_often_as_one(kafka: WatchedKafka) -> None:
    kafka.finds = [99, 99, 99, 0]
    assert {
        found.ended
        for found in outcomes(*(trigger(CaughtUp(LagLimits().to_json(), time.time() - 50)) for _ in range(500)))
    } == {Ended.REACHED}
    # They begin within a few gatherings, more on a busy machine, and then look at the same ticks.
    assert 4 <= len(kafka.reads) < 100
    assert kafka.opened == 1
    assert {len(targets) for targets in kafka.reads} == {1}


def test_a_kafka_that_is_away_is_waited_for_with_a_new_connection(kafka: WatchedKafka) -> None:
    kafka.finds = [BrokerUnreachable("Kafka does not answer."), BrokerUnreachable("Kafka does not answer."), 3]
    (found,) = outcomes(trigger())
    assert found.ended is Ended.REACHED
    assert (kafka.opened, len(kafka.reads)) == (3, 3)


def test_a_timeout_names_what_was_in_the_way(kafka: WatchedKafka) -> None:
    kafka.finds = [BrokerUnreachable("Kafka does not answer.")]
    (found,) = outcomes(trigger(seconds=1.0))
    assert found.ended is Ended.TIMEOUT
    assert found.reason == "Timed out waiting for a lag within its limits. Last problem: Kafka does not answer."


def test_after_the_deadline_it_looks_once(kafka: WatchedKafka) -> None:
    (found,) = outcomes(trigger(seconds=-1.0))
    assert found.ended is Ended.REACHED
    assert len(kafka.reads) == 1


def test_a_deadline_ends_a_wait_for_an_answer_that_does_not_come(
    kafka: WatchedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[asyncio.Timeout] = []
    timeout = asyncio.timeout

    def limit(seconds: float) -> asyncio.Timeout:
        limits.append(timeout(seconds))
        return limits[-1]

    async def waited() -> WaitOutcome:
        waiting = asyncio.create_task(outcome(trigger(seconds=600)))
        await until(lambda: kafka.reads)
        limits[0].reschedule(asyncio.get_running_loop().time())
        return await waiting

    monkeypatch.setattr("airflow_stream_provider.planning.waits.asyncio.timeout", limit)
    kafka.answers.clear()
    found = asyncio.run(waited())
    assert found.ended is Ended.TIMEOUT
    assert (len(kafka.reads), kafka.answered) == (1, 0)


@pytest.mark.parametrize("partitions", [False, True])
def test_partitions_are_told_of_only_when_they_are_asked_for(kafka: WatchedKafka, partitions: bool) -> None:
    kafka.finds = [5]
    made = trigger(Measured(LIMITS.to_json()))
    made.partitions = partitions
    (found,) = outcomes(made)
    assert [("partitions" in query) for query in found.evidence["queries"]] == [partitions]


def test_a_stream_whose_log_cannot_be_read_is_unknown(kafka: WatchedKafka) -> None:
    kafka.finds = [ControlUnavailable("The folder is not mounted.")]
    (found,) = outcomes(trigger(WithinLimits(LIMITS.to_json(), 0.0, "fail")))
    assert (found.ended, found.reason) == (Ended.UNKNOWN, "The folder is not mounted.")


def test_a_connection_that_cannot_be_used_ends_the_wait_at_once(kafka: WatchedKafka) -> None:
    (found,) = outcomes(trigger(kafka="wrong", seconds=600))
    assert (found.ended, found.reason) == (Ended.CANNOT_LOOK, "It has no host.")


def test_one_that_stays_unreadable_ends_it_after_several_looks(
    kafka: WatchedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_stream_provider.triggers.lag.MISSING_SECONDS", 0.5)
    (found,) = outcomes(trigger(kafka="missing", seconds=600))
    assert (found.ended, found.reason) == (Ended.CANNOT_LOOK, "There is no connection. Create it.")


@pytest.mark.parametrize("unread", [1, MISSING_LOOKS])
def test_one_whose_backend_is_away_for_a_moment_is_waited_for(kafka: WatchedKafka, unread: int) -> None:
    kafka.unread = unread
    (found,) = outcomes(trigger(kafka="flaky", seconds=600))
    assert (found.ended, kafka.unread) == (Ended.REACHED, 0)

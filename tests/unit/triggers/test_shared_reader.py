"""How triggers share a reader; Kafka itself is in tests/integration/airflow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lag.limits import LagLook, Moments
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable, ControlUnavailable
from airflow_stream_provider.triggers import shared_reader as sharing
from airflow_stream_provider.triggers.shared_reader import next_tick, shared_reader
from tests.support.watched_kafka import WatchedKafka, target, until

ALWAYS = float("inf")


async def look(name: str = "orders", kafka: str = "kafka_default", since: float = ALWAYS) -> LagLook:
    """A trigger's look; by default a new one."""
    wanted = target(name, kafka)
    async with shared_reader(wanted.kafka) as found:
        return await found.look(wanted, since, Moments())


def looks(*wanted: Coroutine[Any, Any, LagLook]) -> list[LagLook]:
    async def collect() -> list[LagLook]:
        return list(await asyncio.gather(*wanted))

    return asyncio.run(collect())


def test_streams_are_read_together_and_those_of_another_kafka_apart(kafka: WatchedKafka) -> None:
    found = looks(*(look(f"s{n}") for n in range(5)), look(), look(), look(kafka="other"))
    assert sorted(len(targets) for targets in kafka.reads) == [1, 6]
    assert (kafka.opened, len(kafka.threads), len(found)) == (2, 2, 8)


def test_the_event_loop_goes_on_while_kafka_is_slow(kafka: WatchedKafka) -> None:
    kafka.answers.clear()

    async def watched() -> LagLook:
        waits = asyncio.create_task(look())
        await until(lambda: kafka.reads)
        kafka.answers.set()  # only an event loop that is not blocked comes to this
        return await waits

    assert asyncio.run(watched()).report is not None


def test_whoever_asks_while_a_measurement_runs_is_answered_by_the_next_one(kafka: WatchedKafka) -> None:
    kafka.answers.clear()
    kafka.finds = [1, 2]

    async def watched() -> list[LagLook]:
        first = asyncio.create_task(look())
        await until(lambda: kafka.reads)
        later = [asyncio.create_task(look()) for _ in range(3)]
        await asyncio.sleep(0)
        kafka.answers.set()
        return list(await asyncio.gather(first, *later))

    found = asyncio.run(watched())
    assert [each.report and each.report.queries[0].records for each in found] == [1, 2, 2, 2]
    assert len(kafka.reads) == 2


def test_a_look_that_is_new_enough_is_not_made_again(kafka: WatchedKafka) -> None:
    async def watched() -> None:
        async with shared_reader("kafka_default") as found:
            first = await found.look(target(), 0.0, Moments())
            assert await found.look(target(), first.at, Moments()) is first
            assert len(kafka.reads) == 1
            assert await found.look(target(), first.at + 1e-6, Moments()) is not first
            assert await found.look(target("another"), 0.0, Moments()) is not first
            assert len(kafka.reads) == 3

    asyncio.run(watched())


def test_looks_of_those_who_have_left_are_forgotten(kafka: WatchedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "KEPT_SECONDS", 0.0)

    async def watched() -> None:
        async with shared_reader("kafka_default") as found:
            await found.look(target("old"), 0.0, Moments())
            await found.look(target("new"), 0.0, Moments())
            assert found._last.keys() == {target("new")}

    asyncio.run(watched())


def test_the_last_one_to_leave_closes_the_connection_and_the_next_one_opens_its_own(kafka: WatchedKafka) -> None:
    async def watched() -> None:
        async with shared_reader("kafka_default") as first:
            async with shared_reader("kafka_default") as second:
                assert first is second
                await second.look(target(), ALWAYS, Moments())
            assert kafka.closed == 0
        await until(lambda: kafka.closed == 1)
        async with shared_reader("kafka_default") as third:
            assert third is not first
            await third.look(target(), ALWAYS, Moments())

    asyncio.run(watched())
    assert kafka.opened == 2


def test_a_kafka_that_is_away_gives_the_reason_and_gets_a_new_connection(kafka: WatchedKafka) -> None:
    kafka.finds = [BrokerUnreachable("Kafka does not answer."), 3]

    async def watched() -> list[LagLook]:
        async with shared_reader("kafka_default") as found:
            return [await found.look(target(), ALWAYS, Moments()) for _ in range(3)]

    away, *back = asyncio.run(watched())
    assert (away.report, away.problem) == (None, "Kafka does not answer.")
    assert all(each.report is not None for each in back)
    assert kafka.opened == 2


def test_a_stream_whose_log_cannot_be_read_keeps_the_connection(kafka: WatchedKafka) -> None:
    kafka.finds = [ControlUnavailable("The folder is not mounted."), 3]

    async def watched() -> list[LagLook]:
        async with shared_reader("kafka_default") as found:
            return [await found.look(target(), ALWAYS, Moments()) for _ in range(2)]

    assert [each.problem for each in asyncio.run(watched())] == ["The folder is not mounted.", ""]
    assert kafka.opened == 1


def test_a_connection_that_is_missing_is_an_error(kafka: WatchedKafka) -> None:
    with pytest.raises(ConnectionUnavailable, match="There is no connection"):
        asyncio.run(look(kafka="missing"))
    assert kafka.reads == []


def test_a_fault_of_ours_is_told_to_all_who_wait(kafka: WatchedKafka) -> None:
    kafka.finds = [ZeroDivisionError("ours")]

    async def watched() -> list[Any]:
        return list(await asyncio.gather(look(), look("another"), return_exceptions=True))

    assert [type(error) for error in asyncio.run(watched())] == [ZeroDivisionError, ZeroDivisionError]


def test_one_that_is_cancelled_leaves_the_others_alone(kafka: WatchedKafka) -> None:
    kafka.answers.clear()

    async def watched() -> LagLook:
        gone, stays = asyncio.create_task(look()), asyncio.create_task(look())
        await until(lambda: kafka.reads)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        kafka.answers.set()
        return await stays

    assert asyncio.run(watched()).report is not None


@pytest.mark.parametrize("interval", [0.05, 0.2])
def test_all_wake_at_the_same_multiple_of_their_interval(interval: float) -> None:
    async def ticks() -> list[float]:
        first = asyncio.create_task(next_tick(interval))
        await asyncio.sleep(0)
        return [await next_tick(interval), await first]

    before = time.time()
    for tick in asyncio.run(ticks()):
        assert before < tick <= time.time() + 0.001
        assert tick / interval == pytest.approx(round(tick / interval), abs=1e-3)


def test_a_tick_is_never_later_than_the_deadline() -> None:
    deadline = time.time() + 0.01
    assert asyncio.run(next_tick(3600.0, deadline)) == deadline


def test_a_kept_look_is_given_only_to_those_who_ask_nothing_more_of_it(kafka: WatchedKafka) -> None:
    """A gate's moment is asked of Kafka exactly; a look that was not asked for it does not know."""

    async def looks() -> list[bool]:
        async with shared_reader("kafka_default") as found:
            gate = Moments(at=frozenset({5.0}))
            first = await found.look(target(), 0.0, Moments())
            exact = await found.look(target(), 0.0, gate)
            again = await found.look(target(), 0.0, gate)
            return [exact is first, again is exact, await found.look(target(), 0.0, Moments()) is exact]

    assert asyncio.run(looks()) == [False, True, True]


def test_a_control_root_whose_connection_is_missing_is_a_problem_of_its_streams_alone(
    kafka: WatchedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def opened(control: str) -> None:
        if control == "kafka://nowhere/streams":
            raise ConnectionUnavailable("There is no connection 'nowhere'.")

    monkeypatch.setattr(sharing, "acontrol_root", opened)
    moved = replace(target("moved"), control="kafka://nowhere/streams")

    async def watched() -> list[LagLook]:
        async with shared_reader("kafka_default") as found:
            return list(await asyncio.gather(*(found.look(each, ALWAYS, Moments()) for each in (moved, target()))))

    refused, well = asyncio.run(watched())
    assert refused.problem == "There is no connection 'nowhere'."
    assert well.report is not None
    assert [len(targets) for targets in kafka.reads] == [1]

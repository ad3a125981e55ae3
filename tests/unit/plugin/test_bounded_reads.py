"""Reads that hang, beside others that must not wait for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from airflow_stream_provider.lag.guarded_reads import ReadHangs
from airflow_stream_provider.plugin import bounded_reads
from airflow_stream_provider.plugin.bounded_reads import BoundedReads

LONG = 60.0


@pytest.fixture
def dead() -> Iterator[threading.Event]:
    """What a read of a dead mount waits for."""
    found = threading.Event()
    yield found
    found.set()


def test_what_a_read_returns_and_raises_is_passed_on() -> None:
    async def run() -> None:
        reads = BoundedReads()
        assert await reads.read("root", "a", lambda: 7, LONG) == 7
        with pytest.raises(ZeroDivisionError):
            await reads.read("root", "a", lambda: 1 // 0, LONG)
        assert await reads.read("root", "a", lambda: 8, LONG) == 8

    asyncio.run(run())


def test_a_read_that_hangs_is_not_waited_for_and_not_begun_again(dead: threading.Event) -> None:
    begun: list[int] = []

    def hang() -> None:
        begun.append(1)
        dead.wait(LONG)

    async def run() -> None:
        reads = BoundedReads()
        for _ in range(3):
            with pytest.raises(ReadHangs, match="did not answer the API server"):
                await reads.read("root", "a", hang, 0.05)
        while not begun:
            await asyncio.sleep(0.01)
        with pytest.raises(ReadHangs):
            await reads.read("root", "a", hang, 0.05)
        assert begun == [1]
        assert await reads.read("root", "b", lambda: 7, LONG) == 7

    asyncio.run(run())


def test_of_one_place_a_few_hang_at_most_and_other_places_answer(
    dead: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_reads, "WIDTH", 2)
    begun: list[int] = []

    def hang(number: int) -> None:
        begun.append(number)
        dead.wait(LONG)

    async def run() -> None:
        reads = BoundedReads()
        asked = [reads.read("dead", number, partial(hang, number), 0.2) for number in range(9)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, ReadHangs) for each in found)
        while len(begun) < 2:
            await asyncio.sleep(0.01)
        with pytest.raises(ReadHangs):
            await reads.read("dead", "another", lambda: hang(9), 0.2)
        assert sorted(begun) == [0, 1]
        assert await reads.read("alive", "a", lambda: 7, LONG) == 7

    asyncio.run(run())


def test_of_many_places_a_few_are_read_at_once_and_those_that_are_slow_do_not_count(
    dead: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stream may have a control root of its own, and each read opens files in Airflow's own process."""
    monkeypatch.setattr(bounded_reads, "BRISK", 3)
    monkeypatch.setattr(bounded_reads, "SLOW_SECONDS", LONG)
    begun: list[int] = []

    def hang(number: int) -> None:
        begun.append(number)
        dead.wait(LONG)

    async def run() -> None:
        reads = BoundedReads()
        asked = [reads.read(number, number, partial(hang, number), 1.0) for number in range(9)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, ReadHangs) for each in found)
        while len(begun) < 3:
            await asyncio.sleep(0.01)
        assert sorted(begun) == [0, 1, 2]

        monkeypatch.setattr(bounded_reads, "SLOW_SECONDS", 0.01)
        reads = BoundedReads()
        asked = [reads.read(number, number, lambda: hang(0), 0.05) for number in range(9)]
        await asyncio.gather(*asked, return_exceptions=True)
        assert await reads.read("alive", "a", lambda: 7, LONG) == 7

    asyncio.run(run())


def test_what_had_no_turn_for_long_is_not_begun_for_nobody(
    dead: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kafka that is away takes ten seconds for each of a thousand streams, one after the other."""
    monkeypatch.setattr(bounded_reads, "TURN_SECONDS", 0.05)
    monkeypatch.setattr(bounded_reads, "WIDTH", 1)
    begun: list[int] = []

    async def run() -> None:
        reads = BoundedReads()
        asked = [reads.read("root", "first", lambda: dead.wait(LONG), 0.2)]
        asked += [reads.read("root", number, lambda: bool(begun.append(1)), 0.2) for number in range(3)]
        await asyncio.gather(*asked, return_exceptions=True)
        dead.set()
        # What is asked for now has its turn, after those before it.
        while True:
            try:
                assert await reads.read("root", "now", lambda: 7, LONG) == 7
                break
            except ReadHangs:
                pass
        assert begun == []

    asyncio.run(run())


def test_who_asks_for_the_same_meanwhile_gets_the_same_answer() -> None:
    begun: list[int] = []
    go = threading.Event()

    def read() -> int:
        begun.append(1)
        go.wait(LONG)
        return 7

    async def run() -> None:
        reads = BoundedReads()
        asked = [asyncio.create_task(reads.read("root", "a", read, LONG)) for _ in range(3)]
        while not begun:
            await asyncio.sleep(0.01)
        go.set()
        assert await asyncio.gather(*asked) == [7, 7, 7]
        assert begun == [1]

    asyncio.run(run())


def test_an_answer_from_before_a_mount_came_back_is_nobodys(dead: threading.Event) -> None:
    """It was read at a time of which the page would say that it is now."""

    async def run() -> None:
        reads = BoundedReads()
        with pytest.raises(ReadHangs):
            await reads.read("root", "a", lambda: dead.wait(LONG), 0.05)
        late = asyncio.create_task(reads.read("root", "a", lambda: dead.wait(LONG), LONG))
        await asyncio.sleep(0.05)
        dead.set()
        with pytest.raises(ReadHangs):
            await late
        assert await reads.read("root", "a", lambda: 8, LONG) == 8

    asyncio.run(run())

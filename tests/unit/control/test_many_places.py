"""The calls of an event loop to many places: what hangs keeps no other call waiting."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from airflow_stream_provider.control import bounded
from airflow_stream_provider.control.bounded import ManyPlaces, NoAnswer
from tests.support.dead_mount import LONG, SOON, Dead


def test_what_a_call_of_an_event_loop_returns_and_raises_is_passed_on() -> None:
    async def run() -> None:
        places = ManyPlaces()
        assert await places.call("root", "a", lambda: 7, LONG) == 7
        with pytest.raises(ZeroDivisionError):
            await places.call("root", "a", lambda: 1 // 0, LONG)
        assert await places.call("root", "a", lambda: 8, LONG) == 8

    asyncio.run(run())


def test_what_hangs_is_not_waited_for_and_not_begun_again(dead: Dead) -> None:
    async def run() -> None:
        places = ManyPlaces()
        for _ in range(3):
            with pytest.raises(NoAnswer):
                await places.call("root", "a", dead.read, SOON)
        await dead.until_tried(1)
        with pytest.raises(NoAnswer):
            await places.call("root", "a", dead.read, SOON)
        assert len(dead.tried) == 1
        assert await places.call("root", "b", lambda: 7, LONG) == 7

    asyncio.run(run())


def test_of_one_place_a_few_hang_at_most_and_other_places_answer(dead: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "OF_ONE_PLACE", 2)

    async def run() -> None:
        places = ManyPlaces()
        asked = [places.call("dead", number, partial(dead.read, number), SOON) for number in range(9)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, NoAnswer) for each in found)
        await dead.until_tried(2)
        with pytest.raises(NoAnswer):
            await places.call("dead", "another", partial(dead.read, 9), SOON)
        assert sorted(dead.tried) == [0, 1]
        assert await places.call("alive", "a", lambda: 7, LONG) == 7

    asyncio.run(run())


def test_of_many_places_a_few_are_asked_at_once_and_those_that_are_slow_do_not_count(
    dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stream may have a control root of its own, and each read opens files in Airflow's own process."""
    monkeypatch.setattr(bounded, "OF_ALL_PLACES", 3)
    monkeypatch.setattr(bounded, "SLOW_SECONDS", LONG)

    async def run() -> None:
        places = ManyPlaces()
        asked = [places.call(number, number, partial(dead.read, number), SOON) for number in range(9)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, NoAnswer) for each in found)
        await dead.until_tried(3)
        assert sorted(dead.tried) == [0, 1, 2]

        monkeypatch.setattr(bounded, "SLOW_SECONDS", 0.01)
        places = ManyPlaces()
        asked = [places.call(number, number, dead.read, SOON) for number in range(9)]
        await asyncio.gather(*asked, return_exceptions=True)
        assert await places.call("alive", "a", lambda: 7, LONG) == 7

    asyncio.run(run())


def test_what_had_no_turn_for_long_is_not_begun_for_no_asker(dead: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Kafka that is away takes ten seconds for each of a thousand streams, one after the other."""
    monkeypatch.setattr(bounded, "TURN_SECONDS", SOON)
    monkeypatch.setattr(bounded, "OF_ONE_PLACE", 1)
    begun: list[int] = []

    async def run() -> None:
        places = ManyPlaces()
        asked = [places.call("root", "first", dead.read, 2 * SOON)]
        asked += [places.call("root", number, partial(begun.append, number), 2 * SOON) for number in range(3)]
        await asyncio.gather(*asked, return_exceptions=True)
        dead.mended.set()
        # What is asked for now has its turn, after those before it.
        while True:
            try:
                assert await places.call("root", "now", lambda: 7, LONG) == 7
                break
            except NoAnswer:
                pass
        assert begun == []

    asyncio.run(run())


def test_those_who_ask_for_the_same_meanwhile_get_the_same_answer(dead: Dead) -> None:
    async def run() -> None:
        places = ManyPlaces()
        asked = [asyncio.create_task(places.call("root", "a", partial(dead.read, 7), LONG)) for _ in range(3)]
        await dead.until_tried(1)
        dead.mended.set()
        assert await asyncio.gather(*asked) == [7, 7, 7]
        assert dead.tried == [7]

    asyncio.run(run())


def test_an_answer_from_before_a_mount_came_back_is_not_given(dead: Dead) -> None:
    """It was read at a time of which the page would say that it is now."""

    async def run() -> None:
        places = ManyPlaces()
        with pytest.raises(NoAnswer):
            await places.call("root", "a", dead.read, SOON)
        late = asyncio.create_task(places.call("root", "a", dead.read, LONG))
        await asyncio.sleep(0.05)
        dead.mended.set()
        with pytest.raises(NoAnswer):
            await late
        assert await places.call("root", "a", lambda: 8, LONG) == 8

    asyncio.run(run())

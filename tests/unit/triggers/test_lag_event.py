"""When an event is sent, and what outlives a triggerer that dies around it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.triggers import lag_event
from airflow_stream_provider.triggers.lag_event import LagEventTrigger
from tests.support.watched_kafka import LIMITS, WatchedKafka, target


class Store:
    """An asset's store."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return json.loads(self.kept[key]) if key in self.kept else default

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = json.dumps(value)


def event_trigger(store: Store | None, seconds: float = 0.0) -> LagEventTrigger:
    made = LagEventTrigger(target().to_json(), LIMITS.to_json(), seconds, 0.2)
    made.asset_state_store = store  # type: ignore[assignment]
    return made


def events(made: LagEventTrigger, count: int, over: Callable[[], bool] = lambda: False) -> list[dict[str, Any]]:
    """Return the first events; fewer once it is `over`."""

    async def collect() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        async def run() -> None:
            async for event in made.run():
                found.append(json.loads(json.dumps(event.payload)))
                if len(found) == count:
                    return

        task = asyncio.create_task(run())
        deadline = time.monotonic() + 30
        while not task.done() and not over():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        if not task.done():
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return found

    return asyncio.run(collect())


def test_an_event_is_sent_when_it_becomes_bad_and_when_it_is_good_again_with_one_id(kafka: WatchedKafka) -> None:
    kafka.finds = [0, 20, 30, None, 20, 5, 0, 40, 0]
    found = events(event_trigger(Store()), 4)
    assert [each["event"] for each in found] == ["open", "close", "open", "close"]
    assert [each["lag"]["records"] for each in found] == [20, 5, 40, 0]
    assert found[0]["incident"] == found[1]["incident"]
    assert found[0]["since"] == found[1]["since"]
    assert found[0]["reasons"] == ["enrich is behind by 20 records; 10 are allowed."]
    assert (found[1]["reasons"], found[0]["stream"]) == ([], "orders")


def test_an_open_incident_outlives_the_triggerer(kafka: WatchedKafka) -> None:
    store = Store()
    kafka.finds = [20]
    (opened,) = events(event_trigger(store), 2, over=lambda: len(kafka.reads) > 3)
    before = len(kafka.reads)
    assert events(event_trigger(store), 1, over=lambda: len(kafka.reads) > before + 2) == []
    kafka.finds = [0]
    (closed,) = events(event_trigger(store), 1)
    assert (closed["event"], closed["incident"]) == ("close", opened["incident"])


@pytest.mark.parametrize(("finds", "kind"), [([20], "open"), ([20, 0], "close")])
def test_an_event_that_was_perhaps_not_sent_is_sent_again_with_the_same_id(
    kafka: WatchedKafka, finds: list[int], kind: str
) -> None:
    store = Store()
    kafka.finds = finds
    # The last event is taken, and the triggerer gone before it could note that.
    first = events(event_trigger(store), len(finds))[-1]
    (again,) = events(event_trigger(store), 1)
    assert (first["event"], again["event"]) == (kind, kind)
    assert again["incident"] == first["incident"]


@pytest.mark.parametrize(("before", "kinds"), [([20], ["open", "close"]), ([20, 0], ["close", "open"])])
def test_what_was_perhaps_not_sent_comes_before_what_has_changed_meanwhile(
    kafka: WatchedKafka, before: list[int], kinds: list[str]
) -> None:
    store = Store()
    kafka.finds = before
    first = events(event_trigger(store), len(before))[-1]
    kafka.finds = [0] if kinds[-1] == "close" else [20]
    found = events(event_trigger(store), 2)
    assert [each["event"] for each in found] == kinds
    assert found[0]["incident"] == first["incident"]
    if kinds[-1] == "close":
        assert found[1]["incident"] == first["incident"]


def test_an_event_is_noted_as_sent_only_when_airflow_has_had_the_time_to_send_it(
    kafka: WatchedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    kafka.finds = [20]

    async def taken_and_killed() -> None:
        """Airflow's triggerer takes the event, and dies before it sends what it has taken."""
        asked_again = asyncio.Event()

        async def for_ever(interval: float) -> float:
            asked_again.set()
            await asyncio.Event().wait()
            return 0.0

        with monkeypatch.context() as patched:
            patched.setattr(lag_event, "next_tick", for_ever)
            running = event_trigger(store).run()
            await anext(running)
            more = asyncio.ensure_future(anext(running))
            await asyncio.wait_for(asked_again.wait(), 30)
            more.cancel()
            await asyncio.gather(more, return_exceptions=True)

    asyncio.run(taken_and_killed())
    (again,) = events(event_trigger(store), 1)
    assert again["event"] == "open"


def test_a_spike_is_no_event(kafka: WatchedKafka) -> None:
    kafka.finds = [20, 0, 20, 0, 20, 20, 0]
    assert events(event_trigger(Store(), seconds=30.0), 1, over=lambda: len(kafka.reads) > 6) == []


def test_two_assets_that_watch_the_same_are_refused_with_what_to_do(kafka: WatchedKafka) -> None:
    class Two(Store):
        async def aget(self, key: str, default: Any = None) -> Any:
            raise ValueError("Task has 2 concrete inlets and outlets")

    async def first() -> None:
        await anext(event_trigger(Two()).run())

    with pytest.raises(StreamError, match="Let one asset watch it"):
        asyncio.run(first())


def test_an_event_trigger_is_the_same_for_the_same_stream() -> None:
    made = event_trigger(None)
    path, kwargs = made.serialize()
    again = LagEventTrigger(**json.loads(json.dumps(kwargs)))
    assert again.serialize() == (path, kwargs)
    assert LagEventTrigger.hash(path, kwargs) == LagEventTrigger.hash(*again.serialize())


@pytest.mark.parametrize("limits", [None, LIMITS])
def test_a_group_needs_limits_without_verdicts(limits: LagLimits | None) -> None:
    with pytest.raises(SpecError, match="The group g needs limits without verdicts"):
        LagEventTrigger.of(group="g", kafka="k", limits=limits)
    assert LagEventTrigger.of(group="g", kafka="k", limits=LagLimits(max_records=5, verdicts=())).target["group"] == "g"


@pytest.mark.parametrize("kept", [{"kind": "open"}, {"kind": "open", "incident": {"id": "x", "since": "y"}, "sent": 1}])
def test_what_another_version_kept_of_an_event_is_begun_anew(kept: dict[str, Any]) -> None:
    store = Store()
    store.kept["lag_incident"] = json.dumps(kept)
    assert asyncio.run(event_trigger(store)._load()) is None


def test_it_never_acts_when_it_is_cleaned_up_or_killed() -> None:
    assert not {"cleanup", "on_kill"} & {*vars(LagEventTrigger)}


def test_a_connection_that_is_missing_is_looked_for_again_and_opens_nothing(
    kafka: WatchedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = 0

    async def tick(interval: float) -> float:
        nonlocal ticks
        ticks += 1
        await asyncio.sleep(0)
        return time.time()

    monkeypatch.setattr(lag_event, "next_tick", tick)
    made = LagEventTrigger(target(kafka="missing").to_json(), LIMITS.to_json(), 0.0, 0.2)
    assert events(made, 1, over=lambda: ticks > 2) == []
    assert (ticks > 2, kafka.opened) == (True, 0)

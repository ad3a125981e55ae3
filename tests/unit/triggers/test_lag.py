"""How triggers share a reader, and what they tell; Kafka itself is in tests/integration/airflow."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StreamError
from airflow_stream_provider.planning.lag_conditions import CaughtUp, Measured, WithinLimits
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from airflow_stream_provider.triggers import reader
from airflow_stream_provider.triggers.lag import LagTrigger
from airflow_stream_provider.triggers.lag_event import LagEventTrigger, _Event

LIMITS = LagLimits(max_records=10)


@dataclass
class Kafka:
    """What a measurement finds: records behind, or an error, one after the other and the last one for ever."""

    finds: list[Any] = field(default_factory=lambda: [0])
    takes: float = 0.0
    opened: int = 0
    closed: int = 0
    reads: list[list[LagTarget]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def read(self, targets: Iterable[LagTarget]) -> dict[LagTarget, LagReport | StreamError]:
        self.threads.add(threading.current_thread().name)
        self.reads.append(list(targets))
        time.sleep(self.takes)
        found = self.finds.pop(0) if len(self.finds) > 1 else self.finds[0]
        if isinstance(found, ControlUnavailable):
            return dict.fromkeys(targets, found)
        if isinstance(found, Exception):
            raise found
        return {target: report(found) for target in targets}


def report(lag: int | None) -> LagReport:
    state = PartitionState.NO_LEADER if lag is None else PartitionState.OK
    verdict = None if lag is None else Verdict.OK
    partition = PartitionLag("t", 0, state, 0, 0, lag, verdict=verdict)
    return LagReport(time.time(), (QueryLag("enrich", (partition,), seconds=float(lag or 0)),))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kafka]:
    found = Kafka()

    class Client:
        def __init__(self, conn_id: str, extra: Any) -> None:
            assert extra == {"of": conn_id}
            found.opened += 1

        def close(self) -> None:
            found.closed += 1

    class Reader:
        def __init__(self, client: Any) -> None:
            self.read = found.read

    async def extra(kafka: str) -> Any:
        if kafka == "missing":
            raise SpecError("There is no connection.", next_step="Create it.")
        return {"of": kafka}

    monkeypatch.setattr("airflow_stream_provider.kafka.client.KafkaClient", Client)
    monkeypatch.setattr(reader, "LagReader", Reader)
    monkeypatch.setattr(reader, "akafka_extra", extra)
    yield found
    deadline = time.monotonic() + 10
    while found.closed < found.opened and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found.closed == found.opened


def target(name: str = "orders", kafka: str = "kafka_default") -> dict[str, Any]:
    return LagTarget(kafka, name, "file:///control").to_json()


def trigger(condition: Any = None, seconds: float = 30.0, interval: float = 0.2, **more: Any) -> LagTrigger:
    condition = (condition or WithinLimits(LIMITS.to_json())).to_json()
    return LagTrigger(target(**more), condition, interval, time.time() + seconds)


async def outcome(found: LagTrigger) -> WaitOutcome:
    (event,) = [event async for event in found.run()]
    return WaitOutcome.from_event(json.loads(json.dumps(event.payload)))


def outcomes(*triggers: LagTrigger) -> list[WaitOutcome]:
    async def collect() -> list[WaitOutcome]:
        return list(await asyncio.gather(*(outcome(each) for each in triggers)))

    return asyncio.run(collect())


def test_it_survives_the_metadata_database() -> None:
    made = trigger(CaughtUp(5.0))
    path, kwargs = made.serialize()
    assert path == "airflow_stream_provider.triggers.lag.LagTrigger"
    assert LagTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_they_never_act_when_they_are_cleaned_up_or_killed() -> None:
    assert not {"cleanup", "on_kill"} & {*vars(LagTrigger), *vars(LagEventTrigger)}


def test_what_is_found_is_said_once_with_the_evidence_and_the_deadline(kafka: Kafka) -> None:
    kafka.finds = [20, 10]
    made = trigger(WithinLimits(LIMITS.to_json(), seconds=60.0))
    (found,) = outcomes(made)
    assert (found.ended, found.subject, found.deadline) == (Ended.REACHED, "orders", made.deadline)
    assert found.evidence["records"] == 10
    assert len(kafka.reads) == 2


def test_five_hundred_triggers_ask_kafka_as_often_as_one(kafka: Kafka) -> None:
    kafka.finds = [99, 99, 99, 0]
    assert {found.ended for found in outcomes(*(trigger(CaughtUp(time.time() - 50)) for _ in range(500)))} == {
        Ended.REACHED
    }
    # They begin within one gathering or two, and then look at the same ticks.
    assert 4 <= len(kafka.reads) <= 6
    assert kafka.opened == 1
    assert {len(targets) for targets in kafka.reads} == {1}


def test_triggers_of_several_streams_are_read_together_and_those_of_another_kafka_apart(kafka: Kafka) -> None:
    outcomes(*(trigger(Measured(LIMITS.to_json()), name=f"s{n}") for n in range(5)), trigger(kafka="other"))
    assert sorted(len(targets) for targets in kafka.reads) == [1, 5]
    assert kafka.opened == 2
    assert len(kafka.threads) == 2


def test_the_event_loop_is_never_blocked_while_kafka_is_slow(kafka: Kafka) -> None:
    kafka.takes = 0.5
    longest = 0.0

    async def watched() -> None:
        nonlocal longest
        wait = asyncio.create_task(outcome(trigger(Measured(LIMITS.to_json()))))
        while not wait.done():
            before = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - before)
        await wait

    asyncio.run(watched())
    # Generous for a busy machine, and well below what a blocking read would take.
    assert longest < 0.4


def test_a_kafka_that_is_away_is_waited_for_with_a_new_connection(kafka: Kafka) -> None:
    kafka.finds = [BrokerUnreachable("Kafka does not answer."), BrokerUnreachable("Kafka does not answer."), 3]
    (found,) = outcomes(trigger())
    assert found.ended is Ended.REACHED
    assert (kafka.opened, len(kafka.reads)) == (3, 3)


def test_a_timeout_names_what_was_in_the_way(kafka: Kafka) -> None:
    kafka.finds = [BrokerUnreachable("Kafka does not answer.")]
    (found,) = outcomes(trigger(seconds=1.0))
    assert found.ended is Ended.TIMEOUT
    assert found.reason == "Timed out waiting for a lag within its limits. Last problem: Kafka does not answer."


def test_a_deadline_that_has_passed_is_seen_before_the_first_look(kafka: Kafka) -> None:
    (found,) = outcomes(trigger(seconds=-1.0))
    assert found.ended is Ended.TIMEOUT
    assert kafka.reads == []


def test_a_deadline_ends_a_wait_for_an_answer_that_does_not_come(kafka: Kafka) -> None:
    kafka.takes = 3.0
    began = time.monotonic()
    (found,) = outcomes(trigger(seconds=0.5))
    assert found.ended is Ended.TIMEOUT
    assert time.monotonic() - began < 2.5


def test_a_stream_whose_log_cannot_be_read_is_unknown(kafka: Kafka) -> None:
    kafka.finds = [ControlUnavailable("The folder is not mounted.")]
    (found,) = outcomes(trigger(WithinLimits(LIMITS.to_json(), 0.0, "fail")))
    assert (found.ended, found.reason) == (Ended.UNKNOWN, "The folder is not mounted.")


def test_a_connection_that_is_not_there_ends_the_wait_at_once(kafka: Kafka) -> None:
    (found,) = outcomes(trigger(kafka="missing", seconds=600))
    assert (found.ended, found.reason) == (Ended.LOST, "There is no connection. Create it.")


def test_a_fault_of_ours_is_told_to_all_who_wait(kafka: Kafka) -> None:
    kafka.finds = [ZeroDivisionError("ours")]
    with pytest.raises(ZeroDivisionError, match="ours"):
        outcomes(trigger())


def test_one_that_is_cancelled_leaves_the_others_alone(kafka: Kafka) -> None:
    kafka.takes = 0.3

    async def watched() -> WaitOutcome:
        gone = asyncio.create_task(outcome(trigger()))
        stays = asyncio.create_task(outcome(trigger()))
        await asyncio.sleep(0.2)
        gone.cancel()
        return await stays

    assert asyncio.run(watched()).ended is Ended.REACHED


# -- event trigger -----------------------------------------------------------------------------------------------------


class Store:
    """An asset's store."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return json.loads(self.kept[key]) if key in self.kept else default

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = json.dumps(value)


def event_trigger(store: Store | None, seconds: float = 0.0) -> LagEventTrigger:
    made = LagEventTrigger(target(), LIMITS.to_json(), seconds, 0.2)
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


def test_an_event_is_sent_when_it_becomes_bad_and_when_it_is_good_again_with_one_id(kafka: Kafka) -> None:
    kafka.finds = [0, 20, 30, None, 20, 5, 0, 40, 0]
    found = events(event_trigger(Store()), 4)
    assert [each["event"] for each in found] == ["open", "close", "open", "close"]
    assert [each["lag"]["records"] for each in found] == [20, 5, 40, 0]
    assert found[0]["incident"] == found[1]["incident"]
    assert found[0]["since"] == found[1]["since"]
    assert found[0]["reasons"] == ["enrich is behind by 20 records; 10 are allowed."]
    assert (found[1]["reasons"], found[0]["stream"]) == ([], "orders")


def test_an_open_incident_outlives_the_triggerer(kafka: Kafka) -> None:
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
    kafka: Kafka, finds: list[int], kind: str
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
    kafka: Kafka, before: list[int], kinds: list[str]
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


def test_an_event_is_noted_as_sent_only_when_airflow_has_had_the_time_to_send_it(kafka: Kafka) -> None:
    store = Store()
    kafka.finds = [20]
    made = event_trigger(store)
    made.interval = 3600.0
    # Airflow's triggerer takes it, and dies before it sends what it has taken.
    asyncio.run(_taken_and_killed(made))
    (again,) = events(event_trigger(store), 1)
    assert again["event"] == "open"


async def _taken_and_killed(made: LagEventTrigger) -> None:
    running = made.run()
    await anext(running)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(running), 0.5)


def test_a_spike_is_no_event(kafka: Kafka) -> None:
    kafka.finds = [20, 0, 20, 0, 20, 20, 0]
    assert events(event_trigger(Store(), seconds=30.0), 1, over=lambda: len(kafka.reads) > 6) == []


def test_two_assets_that_watch_the_same_are_refused_with_what_to_do(kafka: Kafka) -> None:
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
    assert _Event.from_json(kept) is None

"""How a driver reads and appends to the control log."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import RequestStage
from airflow_stream_provider.runtime.control_client import RETRY_SECONDS, ControlClient
from tests.support.fake_driver import FakeClock, NotingStore
from tests.support.story import (
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    REQUESTED,
    RUNNING,
    aborted,
    ready,
    released,
    requested,
    wanted,
    write,
)


class Back(FakeClock):
    """The store is back after so many sleeps."""

    def __init__(self, store: NotingStore, sleeps: int) -> None:
        super().__init__()
        self.slept: list[float] = []
        self._store = store
        self._sleeps = sleeps

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._store.away = len(self.slept) < self._sleeps


@pytest.fixture
def store() -> NotingStore:
    return NotingStore([])


@pytest.fixture
def log(store: NotingStore) -> ControlLog:
    return ControlLog(store, "orders")


@pytest.fixture
def client(store: NotingStore) -> ControlClient:
    return ControlClient(ControlLog(store, "orders"), OLD, clock=FakeClock())


def test_a_record_says_who_wrote_it_and_when(client: ControlClient) -> None:
    record = client.record(Kind.READY, request="up")
    assert (record.by, record.at, record["request"]) == (f"driver:{OLD}", 150.0, "up")
    assert client.deployment == OLD_DEPLOYMENT


def test_a_renewal_beats_with_what_was_read(client: ControlClient, log: ControlLog) -> None:
    write(log, *PREPARED)
    state = client.renew(lambda state: Heartbeat(counter=3, seq=state.seq))
    assert state.seq == client.state.seq == len(PREPARED)
    assert log.heartbeat(OLD) == Heartbeat(counter=3, seq=len(PREPARED))


def test_a_renewal_without_the_log_sends_no_heartbeat(
    client: ControlClient, log: ControlLog, store: NotingStore
) -> None:
    store.away = True
    with pytest.raises(ControlUnavailable):
        client.renew(lambda state: Heartbeat(counter=1))
    assert log.heartbeat(OLD) is None


def test_a_driver_whose_log_is_damaged_says_so_in_its_heartbeat(
    client: ControlClient, log: ControlLog, store: NotingStore
) -> None:
    write(log, *PREPARED)
    client.renew(lambda state: Heartbeat(counter=1))
    store.stored[len(PREPARED)] = b"torn"
    with pytest.raises(ControlLogDamaged):
        client.renew(lambda state: Heartbeat(counter=2, seq=state.seq))
    assert log.heartbeat(OLD) == Heartbeat(counter=2, seq=len(PREPARED))


def test_nothing_is_appended_when_something_came_between(client: ControlClient, log: ControlLog) -> None:
    write(log, *REQUESTED)
    state = client.renew(lambda state: Heartbeat())
    write(log, aborted("up", by="airflow"))
    client.append_if_still(state, Kind.READY, request="up", incarnation=NEW)
    assert log.refresh().seq == len(REQUESTED) + 1


def test_what_has_happened_is_appended_once_the_log_is_back(store: NotingStore, log: ControlLog) -> None:
    write(log, *REQUESTED)
    clock = Back(store, 3)
    client = ControlClient(ControlLog(store, "orders"), NEW, clock=clock)
    store.away = True
    client.append_patiently(lambda state: client.record(Kind.READY, request="up", incarnation=NEW))
    assert clock.slept == [RETRY_SECONDS] * 3
    request = log.refresh().open_request
    assert request is not None
    assert request.stage is RequestStage.READY


def test_the_peer_has_moved_once_its_heartbeat_grows_after_its_answer_was_read(
    client: ControlClient, log: ControlLog
) -> None:
    write(log, *REQUESTED)
    log.beat(NEW, Heartbeat(counter=5))
    assert not client.peer_moved(log.state.open_request)
    log.beat(NEW, Heartbeat(counter=6))
    assert not client.peer_moved(log.state.open_request), "it has not answered"
    write(log, ready("up", NEW))
    assert not client.peer_moved(log.state.open_request), "this may be its last heartbeat"
    assert not client.peer_moved(log.state.open_request)
    log.beat(NEW, Heartbeat(counter=7))
    assert client.peer_moved(log.state.open_request)
    assert not client.peer_moved(None)


def test_the_progress_of_the_holder_is_of_its_present_hold(
    client: ControlClient, log: ControlLog, store: NotingStore
) -> None:
    """A driver that takes back tells of its last hold until it has read that it holds again."""
    other = ControlClient(ControlLog(store, "orders"), NEW, clock=FakeClock())
    write(log, *RUNNING)
    progress = (QueryProgress("a", batch=7),)
    for epoch, expected in ((0, ()), (1, progress)):
        log.beat(OLD, Heartbeat(epoch=epoch, queries=progress))
        assert other.progress_of_holder(log.state) == expected
    assert client.progress_of_holder(log.state) == (), "it holds itself"
    store.beats[OLD] = b"{torn"
    assert other.progress_of_holder(log.state) == ()


def test_a_new_request_counts_from_the_beginning(client: ControlClient, log: ControlLog) -> None:
    write(log, *READY)
    first = log.state.open_request
    log.beat(NEW, Heartbeat(counter=1))
    client.peer_moved(first)
    log.beat(NEW, Heartbeat(counter=2))
    assert client.peer_moved(first)
    client.peer_moved(None)
    assert not client.peer_moved(first)


def test_a_peer_whose_heartbeat_is_damaged_has_not_moved_until_it_writes_again(
    client: ControlClient, log: ControlLog, store: NotingStore
) -> None:
    write(log, *READY)
    log.beat(NEW, Heartbeat(counter=9))
    assert not client.peer_moved(log.state.open_request)
    for damaged in (b"", b"{torn", b"[" * 100_000):
        store.beats[NEW] = damaged
        assert not client.peer_moved(log.state.open_request)
    log.beat(NEW, Heartbeat(counter=9))
    assert not client.peer_moved(log.state.open_request), "as it was"
    log.beat(NEW, Heartbeat(counter=10))
    assert client.peer_moved(log.state.open_request)


def test_the_queries_before_are_those_of_the_record_and_those_that_were_started_late(
    client: ControlClient, log: ControlLog, store: NotingStore
) -> None:
    assert client.former_queries(log.state) == []
    write(log, *PREPARED)
    assert client.former_queries(log.state) == [{"name": "a", "same_script": True}]
    log.beat(OLD, Heartbeat(queries=(QueryProgress("a"), QueryProgress("late", "/data/late", "kafka"))))
    late = {"name": "late", "checkpoint": "/data/late", "sink": "kafka"}
    assert client.former_queries(log.state) == [{**each, "same_script": True} for each in ({"name": "a"}, late)]
    # Of another release nobody knows whether its script starts it.
    other = ControlClient(ControlLog(store, "orders"), NEW, clock=FakeClock())
    assert other.former_queries(log.state) == [{"name": "a"}, late]
    nobodys = ControlClient(ControlLog(store, "orders"), "orders-9-dddd.00000009", clock=FakeClock())
    assert nobodys.former_queries(log.state) == [{"name": "a"}, late]


@pytest.mark.parametrize("goal", ["stop", "hold"])
def test_the_queries_before_are_those_of_a_stream_that_a_person_stopped(
    client: ControlClient, log: ControlLog, goal: str
) -> None:
    """A restart, whose wish is that a driver holds, stops the holder, too."""
    wish = wanted("w", goal, alone=True)
    write(log, *PREPARED, wish, requested("stop", None, wish="w"), released(OLD, "stop", None))
    stopped = {"stopped": True} if goal == "stop" else {}
    assert client.former_queries(log.state) == [{"name": "a", "same_script": True, **stopped}]


def test_the_queries_before_are_waited_for_and_a_damaged_heartbeat_names_none(
    store: NotingStore, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, *PREPARED)
    store.beats[OLD] = b"[]"
    clock = Back(store, 3)
    heartbeat = store.heartbeat

    def unless_away(incarnation: str) -> bytes | None:
        if store.away:
            raise ControlUnavailable("The store is out of reach.")
        return heartbeat(incarnation)

    monkeypatch.setattr(store, "heartbeat", unless_away)
    store.away = True
    client = ControlClient(ControlLog(store, "orders"), NEW, clock=clock)
    with pytest.raises(ControlUnavailable):
        client.former_queries(log.state)
    assert [each["name"] for each in client.patiently(lambda: client.former_queries(log.state))] == ["a"]
    assert clock.slept == [RETRY_SECONDS] * 3

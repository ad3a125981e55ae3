"""What a driver learns from the log and from heartbeats about the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.runtime import other_drivers
from airflow_stream_provider.runtime.other_drivers import OtherDrivers
from tests.support.simulation.memory_store import MemoryStore
from tests.support.snapshots import RUNNING
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, declared, failed, write


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.read_beats: list[str] = []
        self.read_records: list[int] = []

    def read(self, seq: int) -> bytes | None:
        self.read_records.append(seq)
        return super().read(seq)

    def heartbeat(self, incarnation: str) -> bytes | None:
        self.read_beats.append(incarnation)
        return super().heartbeat(incarnation)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> ControlLog:
    monkeypatch.setattr(other_drivers, "BEATS_SECONDS", 0.5)
    monkeypatch.setattr(other_drivers, "ORPHAN_SECONDS", 0.0)
    made = ControlLog(CountingStore(), "orders")
    write(made, *RUNNING, declared(NEW_DEPLOYMENT))
    return made


@contextmanager
def beating(log: ControlLog, name: str) -> Iterator[None]:
    stop = threading.Event()

    def beat() -> None:
        counter = 10
        while not stop.wait(0.01):
            counter += 1
            log.beat(name, Heartbeat(counter=counter))

    log.beat(name, Heartbeat(counter=10))
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_twin_is_a_driver_of_this_deployment_that_beats(log: ControlLog) -> None:
    me = OtherDrivers(log, f"{NEW_DEPLOYMENT}.0000000f")
    log.beat(OLD, Heartbeat(counter=1))
    assert not me.twin_lives()
    log.beat(NEW, Heartbeat(counter=1))
    assert not me.twin_lives()
    with beating(log, NEW):
        assert me.twin_lives()
    assert isinstance(log.store, CountingStore)
    assert set(log.store.read_beats) == {NEW}, "heartbeats of other deployments are not read"


@pytest.mark.parametrize(
    ("incarnation", "end", "rehearses"),
    [
        (NEW, None, True),
        (NEW, lambda: failed(NEW), False),
        (OLD, None, False),  # it has announced itself, so it has rehearsed
        ("orders-9-00000000.0000000a", None, False),
    ],
)
def test_who_may_be_rehearsing(log: ControlLog, incarnation: str, end: Callable[[], object], rehearses: bool) -> None:
    if end is not None:
        write(log, failed(NEW))
    others = OtherDrivers(log, f"{NEW_DEPLOYMENT}.0000000f")
    with beating(log, incarnation):
        assert others.may_rehearse(incarnation) is rehearses
    assert not others.may_rehearse(incarnation), "its heart has stopped"


def test_the_log_that_the_driver_has_folded_is_not_folded_again(log: ControlLog) -> None:
    others = OtherDrivers(log, f"{NEW_DEPLOYMENT}.0000000f")
    assert isinstance(log.store, CountingStore)
    log.store.read_records.clear()
    assert not others.may_rehearse(OLD)
    assert min(log.store.read_records) == log.state.seq


def test_a_twin_whose_heartbeat_is_damaged_at_first_is_seen(log: ControlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    beats = iter([Heartbeat(counter=7), None])

    def sleep(seconds: float) -> None:
        if beat := next(beats):
            log.beat(OLD, beat)

    monkeypatch.setattr(time, "sleep", sleep)
    me = OtherDrivers(log, f"{OLD_DEPLOYMENT}.ffffffff")
    log.store.put_heartbeat(OLD, b"")
    assert not me.twin_lives(), "it came back before the second look"
    beats = iter([None, Heartbeat(counter=8)])
    log.store.put_heartbeat(OLD, b"{torn")
    assert me.twin_lives()

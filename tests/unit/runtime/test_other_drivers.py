"""What a driver learns from the log and from heartbeats about the others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.runtime import ownership
from airflow_stream_provider.runtime.ownership import OtherDrivers
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
def log() -> ControlLog:
    made = ControlLog(CountingStore(), "orders")
    write(made, *RUNNING, declared(NEW_DEPLOYMENT))
    return made


@pytest.fixture
def living(log: ControlLog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those whose hearts beat whenever the driver sleeps."""
    found: list[str] = []

    def sleep(seconds: float) -> None:
        for name in found:
            beat = log.heartbeat(name) or Heartbeat()
            log.beat(name, Heartbeat(counter=beat.counter + 1))

    monkeypatch.setattr(ownership, "time", SimpleNamespace(sleep=sleep))
    return found


def test_a_twin_is_a_driver_of_this_deployment_that_beats(log: ControlLog, living: list[str]) -> None:
    me = OtherDrivers(log, f"{NEW_DEPLOYMENT}.0000000f")
    log.beat(OLD, Heartbeat(counter=1))
    assert not me.twin_lives()
    log.beat(NEW, Heartbeat(counter=1))
    assert not me.twin_lives()
    living.append(NEW)
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
def test_who_may_be_rehearsing(
    log: ControlLog, living: list[str], incarnation: str, end: Callable[[], object], rehearses: bool
) -> None:
    if end is not None:
        write(log, failed(NEW))
    others = OtherDrivers(log, f"{NEW_DEPLOYMENT}.0000000f")
    log.beat(incarnation, Heartbeat(counter=10))
    living.append(incarnation)
    assert others.may_rehearse(incarnation) is rehearses
    living.clear()
    assert not others.may_rehearse(incarnation), "its heart has stopped"


@pytest.mark.usefixtures("living")
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

    monkeypatch.setattr(ownership, "time", SimpleNamespace(sleep=sleep))
    me = OtherDrivers(log, f"{OLD_DEPLOYMENT}.ffffffff")
    log.store.put_heartbeat(OLD, b"")
    assert not me.twin_lives(), "it came back before the second look"
    beats = iter([None, Heartbeat(counter=8)])
    log.store.put_heartbeat(OLD, b"{torn")
    assert me.twin_lives()

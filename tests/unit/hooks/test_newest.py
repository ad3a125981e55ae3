"""A log that is older than its heartbeats say."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.hooks.control import Newest
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from tests.support.simulation.memory_store import MemoryStore
from tests.support.story import HANDED_OVER, NEW, OLD, RUNNING, record, write


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def heartbeat(self, incarnation: str) -> bytes | None:
        self.asked.append(incarnation)
        return super().heartbeat(incarnation)


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
def log(store: Counting) -> ControlLog:
    found = ControlLog(store, "orders")
    write(found, *RUNNING)
    return found


LAST = len(RUNNING)


@pytest.mark.parametrize(
    "beat",
    [Heartbeat(seq=LAST, epoch=1), Heartbeat(seq=LAST - 2, epoch=0), Heartbeat()],
    ids=["as far", "less far", "nothing read yet"],
)
def test_a_log_that_has_what_its_drivers_have_read_is_new_enough(log: ControlLog, beat: Heartbeat) -> None:
    log.beat(OLD, beat)
    Newest(log).check({})
    Newest(log).check({OLD: beat})


@pytest.mark.parametrize("beat", [Heartbeat(seq=LAST + 1, epoch=1), Heartbeat(seq=LAST, epoch=2)])
@pytest.mark.parametrize("given", [False, True])
def test_a_log_that_is_older_than_a_heartbeat_is_refused(log: ControlLog, beat: Heartbeat, given: bool) -> None:
    log.beat(NEW, beat)
    with pytest.raises(ControlLogDamaged, match=f"ends at record {LAST} .epoch 1., but its driver {NEW}") as refused:
        Newest(log).check({NEW: beat} if given else {})
    assert f"heartbeats/{NEW}.json" in refused.value.next_step


def test_what_was_written_since_the_log_was_read_is_read_first(store: Counting, log: ControlLog) -> None:
    write(ControlLog(store, "orders"), *HANDED_OVER[LAST:])
    log.beat(NEW, Heartbeat(seq=len(HANDED_OVER), epoch=2))
    Newest(log).check({})
    assert log.state.holder == NEW


def test_heartbeats_that_nobody_writes_any_more_are_read_once(store: Counting, log: ControlLog) -> None:
    log.beat(OLD, Heartbeat(seq=1))
    log.beat(NEW, Heartbeat(seq=1))
    newest = Newest(log)
    for _ in range(3):
        newest.check({OLD: Heartbeat(seq=1)})
    assert store.asked == [NEW]


def test_one_that_is_ahead_is_refused_again_until_the_log_has_its_records(store: Counting, log: ControlLog) -> None:
    log.beat(NEW, Heartbeat(seq=LAST + 1, epoch=1))
    newest = Newest(log)
    for _ in range(2):
        with pytest.raises(ControlLogDamaged):
            newest.check({})
    write(ControlLog(store, "orders"), record("noted"))
    newest.check({})


def test_a_damaged_heartbeat_says_nothing(store: Counting, log: ControlLog) -> None:
    store.beats[NEW] = b"torn"
    Newest(log).check({})

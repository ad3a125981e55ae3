"""Appending with an expected number, over a store that loses answers."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, RuleBroken, SeqTaken, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamState
from tests.support import story
from tests.support.simulation.world import MemoryStore


class Faulty(MemoryStore):
    """Raises the planned errors in its next creates and reads. With `arrives` the create succeeds all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.creates: list[tuple[Exception, bool]] = []
        self.reads: list[Exception] = []
        self.asked: list[int] = []

    def create(self, seq: int, data: bytes) -> None:
        error, arrives = self.creates.pop(0) if self.creates else (None, True)
        if arrives:
            super().create(seq, data)
        if error is not None:
            raise error

    def read(self, seq: int) -> bytes | None:
        self.asked.append(seq)
        if self.reads and self.creates == []:
            raise self.reads.pop(0)
        return super().read(seq)


LOST = ControlUnavailable("no answer")


@pytest.fixture
def store() -> Faulty:
    return Faulty()


@pytest.fixture
def log(store: Faulty) -> ControlLog:
    return ControlLog(store, "orders")


def test_records_follow_each_other(log: ControlLog) -> None:
    for seq, record in enumerate(story.HANDED_OVER):
        assert log.append(record, seq).seq == seq + 1
    assert log.state.holder == story.NEW
    assert [r.kind for r in log.records(3)] == [r.kind for r in story.HANDED_OVER[2:]]
    assert ControlLog(log.store, "orders").refresh() == log.state


def test_a_number_that_another_writer_took_is_refused(store: Faulty, log: ControlLog) -> None:
    ControlLog(store, "orders").append(story.declared("other"), 0)
    with pytest.raises(SeqTaken, match="Record 1 was written by someone else"):
        log.append(story.declared("mine"), 0)
    log.refresh()
    with pytest.raises(SeqTaken):
        log.append(story.declared("mine"), 0)
    assert list(store.stored) == [1]


def test_a_record_that_breaks_a_rule_is_not_written(store: Faulty, log: ControlLog) -> None:
    with pytest.raises(RuleBroken, match="intent-first"):
        log.append(story.submitted("nobody"), 0)
    assert store.stored == {}


def test_after_a_lost_answer_the_record_is_read_back(store: Faulty, log: ControlLog) -> None:
    store.creates = [(LOST, True)]
    assert log.append(story.declared("mine"), 0).seq == 1
    assert "mine" in log.state.deployments


def test_after_a_repeated_create_the_record_is_read_back(store: Faulty, log: ControlLog) -> None:
    store.creates = [(SeqTaken("by your own first try"), True)]
    assert log.append(story.declared("mine"), 0).seq == 1


def test_a_lost_create_counts_as_not_written(store: Faulty, log: ControlLog) -> None:
    store.creates = [(LOST, False)]
    with pytest.raises(ControlUnavailable, match="Record 1 may or may not have been written"):
        log.append(story.declared("mine"), 0)
    assert log.state == StreamState()


def test_an_unreadable_log_after_a_lost_answer_counts_as_not_written(store: Faulty, log: ControlLog) -> None:
    store.creates, store.reads = [(LOST, True)], [ControlUnavailable("cannot read")]
    with pytest.raises(ControlUnavailable):
        log.append(story.declared("mine"), 0)
    assert log.state.seq == 0
    assert "mine" in log.refresh().deployments


def test_an_error_while_another_writer_took_the_number_is_seq_taken(store: Faulty, log: ControlLog) -> None:
    store.stored[1] = story.declared("other").to_json()
    log.state = StreamState()
    store.creates = [(LOST, False)]
    with pytest.raises(SeqTaken):
        log.append(story.declared("mine"), 0)


def test_propose_tries_again_when_another_writer_is_faster(store: Faulty, log: ControlLog) -> None:
    others = [story.declared("other-1"), story.declared("other-2")]
    seen: list[int] = []

    def build(state: StreamState) -> Record:
        seen.append(state.seq)
        if others:
            ControlLog(store, "orders").propose(lambda _: others.pop(0))
        return story.declared("mine")

    assert set(log.propose(build).deployments) == {"other-1", "other-2", "mine"}
    assert seen == [0, 1, 2]


def test_propose_stops_when_there_is_nothing_to_do(store: Faulty, log: ControlLog) -> None:
    assert log.propose(lambda state: None) == StreamState()
    assert store.stored == {}


def test_a_refresh_without_new_records_reads_one_number(store: Faulty, log: ControlLog) -> None:
    for seq, record in enumerate(story.RUNNING):
        log.append(record, seq)
    store.asked.clear()
    log.refresh()
    assert store.asked == [len(story.RUNNING) + 1]


def test_a_damaged_record_is_named_by_its_number(store: Faulty, log: ControlLog) -> None:
    store.stored[1] = b'{"kind": "decl'
    with pytest.raises(StreamError, match="Record 1 of the control log is not readable"):
        log.refresh()


def test_heartbeats(log: ControlLog) -> None:
    log.beat(story.OLD, Heartbeat(counter=7))
    assert (log.heartbeat(story.OLD), log.heartbeat(story.NEW)) == (Heartbeat(counter=7), None)
    assert log.heartbeats() == {story.OLD: Heartbeat(counter=7)}


def test_the_heartbeats_of_one_deployment(log: ControlLog) -> None:
    for name in (story.OLD, story.NEW, story.TWIN):
        log.beat(name, Heartbeat())
    assert set(log.heartbeats(story.NEW_DEPLOYMENT)) == {story.NEW, story.TWIN}


def test_a_damaged_heartbeat_is_unknown_and_said_once(
    store: Faulty, log: ControlLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.beat(story.NEW, Heartbeat(counter=7))
    for data in (b"", b'{"counter"', b"\xff", b"[" * 100_000):
        store.beats[story.OLD] = data
        assert log.heartbeat(story.OLD) is None
        assert log.heartbeats() == {story.NEW: Heartbeat(counter=7)}
    assert [record.getMessage() for record in caplog.records if story.OLD in record.getMessage()] == [
        caplog.records[0].getMessage()
    ]
    log.beat(story.OLD, Heartbeat(counter=8))
    assert log.heartbeat(story.OLD) == Heartbeat(counter=8)


def test_records_are_dated_when_they_are_made() -> None:
    first, second = make_record("noted", "me", text="a"), make_record("noted", "me", text="b")
    assert 0 < first.at <= second.at

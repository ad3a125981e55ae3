"""Appending with an expected number, over a store that loses answers."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.control import log as reading
from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.lifecycle import fold as folding
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    RuleBroken,
    SeqTaken,
)
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import MAX_BYTES, Record
from airflow_stream_provider.lifecycle.state import StreamState
from tests.support import story
from tests.support.simulation.memory_store import MemoryStore


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
    assert store.asked == [len(story.RUNNING) + 1, len(story.RUNNING)], "and the last one, which must not have changed"


def test_what_others_could_not_read_is_not_written(store: Faulty, log: ControlLog) -> None:
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    for fields in ({"text": "x" * MAX_BYTES}, {"deep": deep}):
        with pytest.raises(RuleBroken, match="readable"):
            log.append(make_record("noted", "test", **fields), 0)
    assert store.stored == {}


def test_every_record_names_the_one_before_it(store: Faulty, log: ControlLog) -> None:
    story.write(log, *story.RUNNING)
    records = log.records()
    assert [r.previous for r in records] == ["", *(r.nonce for r in records[:-1])]


def test_records_of_before_the_chain_are_accepted(store: Faulty, log: ControlLog) -> None:
    for seq, record in enumerate(story.RUNNING, start=1):
        store.stored[seq] = record.to_json()
    story.write(log, *story.PREPARED[len(story.RUNNING) :])
    assert (log.state.illegal_count, ControlLog(store, "orders").refresh()) == (0, log.state)


@pytest.mark.parametrize("grown", [0, 2, 3, 5])
def test_whoever_read_a_log_that_was_put_back_and_grew_again_stops(store: Faulty, log: ControlLog, grown: int) -> None:
    """From 6 records it was put back to 5 … 3 of which are as before, and became shorter, as long, longer."""
    story.write(log, *story.RUNNING)
    for seq in (4, 5, 6):
        del store.stored[seq]
    other = ControlLog(store, "orders")
    for seq in range(3, 3 + grown):
        other.append(make_record("noted", "another"), seq)
    stored = dict(store.stored)
    for act in (log.refresh, lambda: log.append(story.released(story.OLD, None, None), 6), lambda: log.propose(stop)):
        with pytest.raises(ControlLogReplaced, match=r"Record 6 .* (is missing|is another one) now") as refused:
            act()
        assert refused.value.next_step
    assert (store.stored, log.state.seq) == (stored, 6)


def stop(state: StreamState) -> Record:
    return story.released(story.OLD, None, None)


def test_a_record_that_was_written_while_the_log_was_put_back_is_not_obeyed(
    store: Faulty, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.write(log, *story.STARTED)
    create = store.create

    def slow(seq: int, data: bytes) -> None:
        store.stored[seq - 1] = make_record("noted", "the copy").to_json()
        create(seq, data)

    monkeypatch.setattr(store, "create", slow)
    with pytest.raises(ControlLogReplaced):
        log.append(story.requested("start", story.OLD), 3)
    with pytest.raises(ControlLogDamaged, match=r"Record 4 .* was written after another record 3 than there is now"):
        ControlLog(store, "orders").refresh()


def save(log: ControlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SAVE_EVERY", 1)
    log.save()


def test_a_log_is_opened_from_the_saved_state(store: Faulty, log: ControlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    story.write(log, *story.PREPARED)
    save(log, monkeypatch)
    story.write(log, story.requested("up", story.NEW))
    store.asked.clear()
    again = ControlLog(store, "orders")
    last = len(story.PREPARED)
    assert again.refresh() == log.state
    assert set(store.asked) == {last, last + 1, last + 2}
    assert [r.seq for r in again.history()] == list(range(1, last + 2))


def test_it_is_saved_only_when_the_log_has_grown_enough(store: Faulty, log: ControlLog) -> None:
    for seq in range(reading.SAVE_EVERY):
        assert store.saved is None
        log.append(make_record("noted", "test"), seq)
        log.save()
    first = store.saved
    assert first is not None
    log.append(make_record("noted", "test"), reading.SAVE_EVERY)
    log.save()
    assert store.saved is first
    assert ControlLog(store, "orders").refresh() == log.state


@pytest.mark.parametrize("what", ["damaged", "of another log"])
def test_a_saved_state_that_does_not_fit_is_not_used(
    store: Faulty, log: ControlLog, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.write(log, *story.PREPARED)
    save(log, monkeypatch)
    assert store.saved is not None
    if what == "damaged":
        store.saved = store.saved[:-20]
    else:
        last, before = len(story.PREPARED), log.records()[-2].nonce
        store.stored[last] = make_record("noted", "another").numbered(last, before).to_json()
    kept = store.saved
    store.saved = None
    plain = ControlLog(store, "orders").refresh()
    store.saved = kept
    assert ControlLog(store, "orders").refresh() == plain


def test_history_goes_back_so_far_and_no_further(
    store: Faulty, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HISTORY", 4)
    story.write(log, *story.PREPARED)
    last = len(story.PREPARED)
    again = ControlLog(store, "orders")
    again.refresh()
    for each in (again, log):
        assert [r.seq for r in each.history(2)] == [last - 1, last]
        for most in (None, 4, 9):
            assert [r.seq for r in each.history(most)] == list(range(last - 3, last + 1))


def test_history_leaves_out_what_it_cannot_know_to_be_legal(
    store: Faulty, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "ILLEGAL_NAMED", 2)
    story.write(log, *story.RUNNING)
    for seq in (7, 9, 11):
        store.stored[seq] = story.acquired(story.NEW, "forged", 2).to_json()
        log.refresh()
        log.append(make_record("noted", "test"), seq)
    assert log.state.illegal_count == 3
    assert [r.seq for r in log.history()] == [10, 12]


def test_heartbeats(log: ControlLog) -> None:
    log.beat(story.OLD, Heartbeat(counter=7))
    assert (log.heartbeat(story.OLD), log.heartbeat(story.NEW)) == (Heartbeat(counter=7), None)
    assert log.heartbeats() == {story.OLD: Heartbeat(counter=7)}
    assert log.heartbeats(story.OLD_DEPLOYMENT) == log.heartbeats()
    assert log.heartbeats(story.NEW_DEPLOYMENT) == {}


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


def test_another_reader_goes_on_from_here_and_by_itself(store: Faulty, log: ControlLog) -> None:
    story.write(log, *story.PREPARED)
    other = log.another()
    store.asked.clear()
    story.write(log, story.requested("up", story.NEW))
    assert other.refresh() == log.state
    assert other.history() == log.history()
    assert min(store.asked) == len(story.PREPARED)

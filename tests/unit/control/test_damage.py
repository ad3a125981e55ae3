"""Which records are carried though nobody can read them, and which stop whoever reads them."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control.damage import check_chain, damaged, replaced, whole_before
from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced, ControlUnavailable
from airflow_stream_provider.lifecycle.record import MAX_BYTES, Record
from airflow_stream_provider.lifecycle.saved_state import dump
from tests.support import story
from tests.support.simulation.memory_store import MemoryStore

TORN = Record.read(b"torn", 2)


def chain(length: int) -> list[Record]:
    found = [Record("noted", seq=1)]
    for seq in range(2, length + 1):
        found.append(Record("noted").numbered(seq, found[-1].nonce))
    return found


def test_records_that_follow_each_other_are_whole() -> None:
    records = chain(4)
    check_chain("orders", "", records)
    check_chain("orders", records[1].nonce, records[2:])
    check_chain("orders", "anything", [Record("noted", seq=7), Record("noted", seq=8)])  # they name none


def test_what_is_no_record_is_carried_when_the_next_one_names_its_bytes() -> None:
    first = Record("noted", seq=1)
    check_chain("orders", "", [first, TORN, Record("noted").numbered(3, TORN.nonce)])


@pytest.mark.parametrize(
    "after",
    [[], [Record("noted", seq=3)], [Record("noted", seq=3, previous="a sound one")], [Record.read(b"torn too", 3)]],
    ids=["the last", "names none", "names another", "neither can be read"],
)
def test_what_may_have_been_a_record_is_not(after: list[Record]) -> None:
    with pytest.raises(ControlLogDamaged, match="Record 2 of the control log of orders cannot be read") as refused:
        check_chain("orders", "", [Record("noted", seq=1), TORN, *after])
    assert refused.value.fields["seq"] == 2


def test_the_chain_breaks_where_a_record_names_another_one() -> None:
    records = chain(4)
    for given in ([*records[:2], records[3]], [records[0], Record("noted").numbered(2, "elsewhere")]):
        with pytest.raises(ControlLogDamaged, match="was written after another record"):
            check_chain("orders", "", given)
    with pytest.raises(ControlLogDamaged, match=r"Record 3 .* another record 2 than there is now"):
        check_chain("orders", "of another log", records[2:])


def test_history_goes_back_to_the_last_damage() -> None:
    records = chain(6)
    stored: dict[int, bytes] = {record.seq: record.to_json() for record in records}

    def back(first: int = 1) -> list[int]:
        return [record.seq for record in whole_before(stored.get, records[-1].previous, 6, first)]

    assert (back(), back(3)) == ([1, 2, 3, 4, 5], [3, 4, 5])
    for bad in (b"torn", None, Record("noted", seq=3).to_json()):
        stored[3] = bad or b""
        if bad is None:
            del stored[3]
        assert back() == [4, 5]


def test_what_was_carried_is_part_of_history_and_what_names_nothing_follows_a_record_only() -> None:
    stored = {1: Record("noted").to_json(), 2: b"torn", 3: Record("noted").numbered(3, TORN.nonce).to_json()}
    assert [r.seq for r in whole_before(stored.get, Record.read(stored[3], 3).nonce, 4, 1)] == [1, 2, 3]
    assert whole_before(stored.get, "", 3, 1) == []


def test_the_errors_say_what_to_do() -> None:
    """Everybody waits for a log that is damaged, as for one that is away; nobody for one that was replaced."""
    found = damaged("orders", 7, "is missing")
    assert isinstance(found, ControlUnavailable)
    assert found.fields["seq"] == 7
    assert f"In a control folder restore log/{7:020d}.json" in found.next_step
    assert "Into a topic of Kafka nothing can be put back: the stream needs a new control log" in found.next_step
    assert "A damaged control log" in found.next_step
    assert not isinstance(replaced("orders", 7, "is missing"), ControlUnavailable)
    assert isinstance(replaced("orders", 7, "is missing"), ControlLogReplaced)


GARBAGE = [b"", b'{"kind": "decl', b"[" * 100_000, b'{"a": ' * 500 + b"1" + b"}" * 500, b"x" * (MAX_BYTES + 1)]
KINDS = ["empty", "torn", "deep", "deep-and-whole", "huge"]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> ControlLog:
    return ControlLog(store, "orders")


@pytest.mark.parametrize("garbage", GARBAGE, ids=KINDS)
def test_a_log_goes_on_after_what_never_was_a_record(store: MemoryStore, log: ControlLog, garbage: bytes) -> None:
    """Whoever wrote the record after it had read the same bytes."""
    story.write(log, *story.RUNNING)
    bad = len(story.RUNNING) + 1
    store.stored[bad] = garbage
    named = Record.read(garbage, bad).nonce
    store.stored[bad + 1] = make_record("noted", "somebody").numbered(bad + 1, named).to_json()
    assert log.refresh().illegal[-1].rule == "readable"
    story.write(log, *story.PREPARED[len(story.RUNNING) :])
    assert (log.state.holder, log.state.illegal_count) == (story.OLD, 1)
    again = ControlLog(store, "orders")
    assert (again.refresh(), again.history()) == (log.state, log.history())
    assert [r.seq for r in log.records() if r.kind == "unreadable"] == [bad]
    assert "unreadable" not in {r.kind for r in again.history()}


@pytest.mark.parametrize("garbage", GARBAGE, ids=KINDS)
def test_nobody_goes_on_after_what_may_have_been_a_record(store: MemoryStore, log: ControlLog, garbage: bytes) -> None:
    """Others may have read what it was before the disk failed; so it waits for a person, whoever reads it."""
    story.write(log, *story.RUNNING)
    bad = len(story.RUNNING) + 1
    store.stored[bad] = garbage
    new = ControlLog(store, "orders")
    late = make_record("noted", "me")
    for act in (log.refresh, lambda: log.append(late, bad), new.refresh, lambda: new.append(late, bad)):
        with pytest.raises(ControlLogDamaged, match=f"Record {bad} of the control log of orders cannot be read"):
            act()
    assert max(store.stored) == bad
    store.stored[bad] = make_record("noted", "what it was").numbered(bad, log.state.nonce).to_json()
    assert log.refresh() == ControlLog(store, "orders").refresh()
    assert (log.state.seq, log.state.illegal_count) == (bad, 0)


@pytest.mark.parametrize("garbage", [*GARBAGE, None], ids=[*KINDS, "missing"])
@pytest.mark.parametrize("bad", range(1, len(story.HANDED_OVER)))
def test_a_log_that_was_damaged_after_it_was_read_is_never_another_history(
    store: MemoryStore, log: ControlLog, bad: int, garbage: bytes | None
) -> None:
    story.write(log, *story.HANDED_OVER)
    whole = dict(store.stored)
    if garbage is None:
        del store.stored[bad]
    else:
        store.stored[bad] = garbage
    again = ControlLog(store, "orders")
    for act in (
        again.refresh,
        lambda: again.append(make_record("noted", "me"), bad - 1),
        lambda: again.propose(lambda state: make_record("noted", "me")),
    ):
        with pytest.raises(ControlLogDamaged, match=f"Record {bad} of the control log of orders") as refused:
            act()
        assert f"{bad:020d}.json" in refused.value.next_step
    assert max(store.stored) == max(whole), "nothing is written"
    # Who has read it goes on by what it was.
    assert log.refresh().holder == story.NEW
    story.write(log, story.record("noted"))
    store.stored[bad] = whole[bad]
    assert again.refresh() == log.refresh()


def test_several_records_that_vanished_are_noticed_too(store: MemoryStore, log: ControlLog) -> None:
    story.write(log, *story.HANDED_OVER)
    for seq in (3, 4, 5):
        del store.stored[seq]
    with pytest.raises(ControlLogDamaged, match=r"Record 3 .* is missing, though there were later ones"):
        ControlLog(store, "orders").refresh()


def test_a_record_that_is_another_one_now_is_noticed_by_the_one_after_it(store: MemoryStore, log: ControlLog) -> None:
    story.write(log, *story.HANDED_OVER)
    store.stored[5] = make_record("noted", "another").numbered(5, log.records()[3].nonce).to_json()
    with pytest.raises(ControlLogDamaged, match=r"Record 6 .* was written after another record 5 than there is now"):
        ControlLog(store, "orders").refresh()


def test_whoever_reads_on_does_not_take_a_vanished_record_for_the_end(store: MemoryStore, log: ControlLog) -> None:
    story.write(log, *story.RUNNING)
    log.refresh()
    story.write(ControlLog(store, "orders"), *story.PREPARED[len(story.RUNNING) :])
    missing = len(story.RUNNING) + 1
    kept = store.stored.pop(missing)
    with pytest.raises(ControlLogDamaged, match=f"Record {missing} .* is missing"):
        log.propose(lambda state: make_record("noted", "me"))
    store.stored[missing] = kept
    assert log.refresh().seq == len(story.PREPARED)


def test_the_last_record_that_was_read_vanishes_before_another_one(store: MemoryStore, log: ControlLog) -> None:
    """Nobody can go on there: it is no log that was put back, and its readers need not halt."""
    story.write(log, *story.RUNNING)
    last = len(story.RUNNING)
    story.write(ControlLog(store, "orders"), make_record("noted", "another"))
    kept = store.stored.pop(last)
    with pytest.raises(ControlLogDamaged, match=f"Record {last} .* is missing"):
        log.refresh()
    store.stored[last] = kept
    assert log.refresh().seq == last + 1


def test_the_last_record_is_damaged_after_it_was_read(store: MemoryStore, log: ControlLog) -> None:
    """Its readers wait, and go on once it is restored; they halt when the log has gone on without it."""
    story.write(log, *story.RUNNING)
    last = len(story.RUNNING)
    whole, store.stored[last] = store.stored[last], b"torn"
    for act in (log.refresh, lambda: log.append(make_record("noted", "me"), last)):
        with pytest.raises(ControlLogDamaged, match=f"Record {last} .* cannot be read"):
            act()
    store.stored[last] = whole
    assert log.refresh().holder == story.OLD
    store.stored[last] = b"torn"
    named = Record.read(b"torn", last).nonce
    store.stored[last + 1] = make_record("noted", "somebody").numbered(last + 1, named).to_json()
    with pytest.raises(ControlLogReplaced):
        log.refresh()


def test_two_records_that_are_written_while_a_log_is_opened_are_no_gap(
    store: MemoryStore, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.write(log, *story.STARTED)
    more = [make_record("noted", "a"), make_record("noted", "b")]
    listed = store.next_number

    def late(seq: int) -> int | None:
        if more:
            story.write(log, more.pop(), more.pop())
        return listed(seq)

    monkeypatch.setattr(store, "next_number", late)
    assert ControlLog(store, "orders").refresh().seq == len(story.STARTED) + 2


@pytest.mark.parametrize("left", [0, 3])
def test_a_saved_state_of_a_longer_log_says_that_records_are_missing(
    store: MemoryStore, log: ControlLog, left: int
) -> None:
    story.write(log, *story.PREPARED)
    store.put_saved_state(dump(log.refresh()))
    for seq in list(store.stored)[left:]:
        del store.stored[seq]
    again = ControlLog(store, "orders")
    for act in (again.refresh, again.refresh, lambda: again.append(make_record("noted", "me"), left)):
        with pytest.raises(ControlLogDamaged, match=f"Record {left + 1} .* is missing, though there were later ones"):
            act()


@pytest.mark.parametrize("garbage", [b"torn", None])
def test_damage_below_the_saved_state_shortens_the_history_and_nothing_else(
    store: MemoryStore, log: ControlLog, garbage: bytes | None
) -> None:
    story.write(log, *story.PREPARED)
    store.put_saved_state(dump(log.refresh()))
    story.write(log, story.requested("up", story.NEW))
    store.stored[4] = garbage or b""
    if garbage is None:
        del store.stored[4]
    again = ControlLog(store, "orders")
    assert again.refresh() == log.state
    assert [r.seq for r in again.history()] == list(range(5, len(story.PREPARED) + 2))
    store.saved = None
    with pytest.raises(ControlLogDamaged, match="Record 4"):
        ControlLog(store, "orders").refresh()

"""Whoever opens a control topic from its end answers exactly as one that has read every message."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from airflow_stream_provider.control import topic_header, topic_index, topic_reader
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message
from airflow_stream_provider.control.topic_header import INDEX
from airflow_stream_provider.control.topic_index import COUNT, READ_TO, ReadTo, heartbeat_key, record_key
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import (
    ControlLogReplaced,
    ControlUnavailable,
    Damaged,
    SeqTaken,
    StreamError,
)
from airflow_stream_provider.lifecycle.heartbeat import HEARTBEAT_LIMIT
from airflow_stream_provider.lifecycle.record import Record
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic

DRIVERS = [f"orders-1-aaaaaaaa.{number:08x}" for number in range(3)]
WRITERS = range(4)
FOREIGN = ReadTo(3, "f" * 32, "e" * 32)
kind = st.just
writer, driver = st.sampled_from(WRITERS), st.sampled_from(DRIVERS)
act = st.one_of(
    st.tuples(kind("append"), writer),
    st.tuples(kind("append"), writer),
    st.tuples(kind("beat"), writer, driver),
    st.tuples(kind("beat"), writer, driver),
    st.tuples(kind("save"), writer),
    st.tuples(kind("ids"), writer),
    st.tuples(kind("look"), writer),
    st.tuples(kind("remove"), writer, driver),
    st.tuples(kind("reopen"), writer),
    st.tuples(kind("lose"), st.integers(0, 5)),
    st.tuples(kind("late"), driver, st.integers(0, 3)),
    st.tuples(kind("foreign"), driver),
    st.tuples(kind("haunt"), driver),
    st.tuples(kind("freeze"), writer),
    st.tuples(kind("damage"), st.integers(0, 3), st.integers(0, 10_000)),
    st.tuples(kind("newer"), st.integers(0, 3)),
    st.tuples(kind("compact"), st.integers(0, 12), st.booleans()),
)
# What ends a log, or its readers: at most one in a history.
end = st.one_of(st.tuples(kind("forge"), st.integers(1, 3)), st.tuples(kind("anew")))
histories = st.builds(
    lambda *parts: [each for part in parts for each in part],
    st.lists(act, max_size=30),
    st.lists(end, max_size=1),
    st.lists(act, max_size=12),
)


class World:
    """One topic, and those who write to it, each of whom knows as much as it has read."""

    def __init__(self) -> None:
        self.log = SimulatedLog()
        self.writers = [self.opened() for _ in WRITERS]
        self.values = iter(range(10_000))
        self.old: list[ReadTo] = [ReadTo()]
        for number in range(6):
            self.append(number % 2)
            self.beat(number % 3, DRIVERS[number % 2])
        self.frozen = self.writers[0]

    def opened(self) -> TopicStore:
        return TopicStore(SimulatedTopic(self.log), "orders")

    def do(self, act: str, *arguments: Any) -> None:
        try:
            getattr(self, act)(*arguments)
        except ControlLogReplaced:
            # Its topic is no more: a task that is cleared, or a new driver, opens the one there is.
            self.writers = [self.opened() for _ in WRITERS]
        except StreamError:
            pass  # the log is damaged; others may not know it yet

    def value(self) -> bytes:
        return str(next(self.values)).encode()

    def last(self, writer: int) -> tuple[int, str]:
        """Let a writer read on, as a driver does in each turn; return number and nonce of the last record."""
        store, seq, nonce = self.writers[writer], 0, ""
        after = 0
        while after := store.next_number(seq) or 0:
            seq = after
            nonce = Record.read(store.read(seq) or b"", seq).nonce
        return seq, nonce

    def append(self, writer: int) -> None:
        store = self.writers[writer]
        seq, nonce = self.last(writer)
        self.old.append(store._reader.index.read_to)
        with contextlib.suppress(SeqTaken):
            store.create(seq + 1, make_record("kind", "me", n=next(self.values)).numbered(seq + 1, nonce).to_json())

    def beat(self, writer: int, driver: str) -> None:
        self.last(writer)
        self.writers[writer].put_heartbeat(driver, self.value())

    def save(self, writer: int) -> None:
        self.writers[writer].put_saved_state(self.value())

    def ids(self, writer: int) -> None:
        self.writers[writer].put_topic_ids(self.value())

    def look(self, writer: int) -> None:
        self.writers[writer].catch_up()

    def remove(self, writer: int, driver: str) -> None:
        self.writers[writer].remove_heartbeat(driver)

    def reopen(self, writer: int) -> None:
        self.writers[writer] = self.opened()

    def lose(self, ago: int) -> None:
        """A writer that had read so much less writes a record of a number that is taken."""
        known = self.old[-1 - ago % len(self.old)]
        data = make_record("kind", "late").numbered(known.seq + 1, known.nonce).to_json()
        self.log.append(record_key(known.seq + 1).encode(), data, {READ_TO: known.to_header()})

    def late(self, driver: str, count: int) -> None:
        """A heartbeat arrives behind later ones."""
        known = self.old[-1]
        self.log.append(
            heartbeat_key(driver).encode(), self.value(), {READ_TO: known.to_header(), COUNT: b"%d" % count}
        )

    def foreign(self, driver: str) -> None:
        """One that had read another log writes; its index is of that log."""
        theirs = [m.headers[INDEX] for m in self.log.messages if INDEX in m.headers]
        headers = {READ_TO: FOREIGN.to_header(), COUNT: b"999", **({INDEX: theirs[-1]} if theirs else {})}
        self.log.append(heartbeat_key(driver).encode(), self.value(), headers)

    def freeze(self, writer: int) -> None:
        """A writer is suspended."""
        self.frozen = self.writers[writer]
        self.reopen(writer)

    def haunt(self, driver: str) -> None:
        """It wakes up, perhaps beside another topic than it knows, and beats once before it reads."""
        write_one(self.frozen, heartbeat_key(driver), self.value())

    def forge(self, more: int) -> None:
        """One writes that had read records which are not there."""
        known = self.writers[0]._reader.index.read_to
        lost = ReadTo(known.seq + more, "d" * 32, known.first or "e" * 32)
        self.log.append(b"look", b"-", {READ_TO: lost.to_header()})

    def change(self, number: int, changed: Callable[[bytes], bytes]) -> None:
        """Change the index of one of the last messages."""
        with_one = [n for n, message in enumerate(self.log.messages) if INDEX in message.headers]
        if with_one:
            n = with_one[-1 - number % len(with_one)]
            m = self.log.messages[n]
            headers = {**m.headers, INDEX: changed(m.headers[INDEX])}
            self.log.messages[n] = Message(m.offset, m.key, m.value, headers, m.at)

    def damage(self, number: int, place: int) -> None:
        def flip(data: bytes) -> bytes:
            at = place % len(data)
            return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

        self.change(number, flip)

    def newer(self, number: int) -> None:
        self.change(number, lambda data: b"2" + data[1:])

    def compact(self, newest: int, tombstones: bool) -> None:
        self.log.compact(self.log.end - newest, tombstones=tombstones)

    def anew(self) -> None:
        self.log.begin()
        self.old = [ReadTo()]


def write_one(store: TopicStore, key: str, value: bytes) -> None:
    """Write a message of a store, with all that it knows."""
    store._write(key, value, {COUNT: b"1", **store._indexed()})


def answers(store: TopicStore, order: list[int]) -> dict[str, Any]:
    """Return all that a store says, asked in an order."""

    def beats() -> dict[str, bytes]:
        found = {name: store.heartbeat(name) for name in store.heartbeats()}
        return {name: beat for name, beat in found.items() if beat is not None}

    questions: dict[str, Callable[[], Any]] = {
        **{f"read {n}": partial(store.read, n) for n in range(1, 17)},
        **{f"next {n}": partial(store.next_number, n) for n in range(1, 17)},
        "beats": beats,
        "state": store.saved_state,
        "ids": store.topic_ids,
    }
    names = list(questions)
    said = {}
    for each in order:
        name = names[each % len(names)]
        try:
            said[name] = questions[name]()
        except StreamError as error:
            said[name] = (type(error), error.fields.get("seq"))
    return said


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with patch.object(topic_reader, "TAILS", (2, 5, 11)), patch.object(topic_header, "RECORDS", 3):
        yield


@settings(max_examples=150, deadline=None)
@given(histories, st.randoms(use_true_random=False), st.sampled_from((topic_index.HELD_VALUE, 0)))
def test_a_log_opened_from_its_end_says_what_one_says_that_was_read_whole(
    acts: list[Any], random: Random, held: int
) -> None:
    with patch.object(topic_index, "HELD_VALUE", held), patch.object(topic_reader, "_KEPT_BYTES", held):
        check_answers(acts, random)


def check_answers(acts: list[Any], random: Random) -> None:
    world = World()
    order = random.sample(range(35), 35)
    for each in acts:
        world.do(*each)
    fresh, whole = world.opened(), world.opened()
    found = answers(fresh, order)
    with patch.object(topic_reader, "TAILS", ()):
        wanted = answers(whole, order)
    errors = [each for each in wanted.values() if isinstance(each, tuple)]
    event("damaged" if errors else "sound")
    different = {name: said for name, said in found.items() if said != wanted[name]}
    if errors:
        # A damaged log: how many old records one knows before it is found out, depends on how many come at once.
        old = {name for name in different if name.startswith("read") and isinstance(wanted[name], (tuple, bytes))}
        assert all(said in errors or isinstance(said, bytes) for said in (different[name] for name in old))
        assert not any(isinstance(different[name], bytes) and isinstance(wanted[name], bytes) for name in old)
        different = {name: said for name, said in different.items() if name not in old}
    assert different == {}


@settings(max_examples=60, deadline=None)
@given(st.lists(act, max_size=30))
def test_who_had_it_open_has_the_same_records_as_who_opens_it(acts: list[Any]) -> None:
    world = World()
    for each in acts:
        world.do(*each)
    order = list(range(32))
    fresh = answers(world.opened(), order)
    for writer in world.writers:
        assert answers(writer, order) == fresh


class Away(SimulatedTopic):
    """Does not answer once, when it is read from its beginning a second time."""

    begun = 0

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        self.begun += offset == 0
        if offset == 0 and self.begun == 2:
            raise ControlUnavailable("It is away.")
        return super().read(offset, size)


def life(records: int, beats: int) -> World:
    """A stream with a driver that beats between two records."""
    world = World()
    world.anew()
    world.writers = [world.opened() for _ in WRITERS]
    for _ in range(records):
        world.append(0)
        for _ in range(beats):
            world.beat(1, DRIVERS[0])
    return world


def test_little_is_read_of_a_long_log() -> None:
    world = life(50, 20)
    world.save(0)
    world.beat(1, DRIVERS[0])
    topic = SimulatedTopic(world.log)
    store = TopicStore(topic, "orders")
    assert store.next_number(50) is None
    assert Record.read(store.read(50) or b"", 50).kind == "kind"
    assert (store.heartbeats(), store.heartbeat(DRIVERS[0]), store.saved_state()) == (
        [DRIVERS[0]],
        world.writers[1].heartbeat(DRIVERS[0]),
        world.writers[1].saved_state(),
    )
    assert topic.read_messages < 12
    assert world.log.end == 1052


def test_what_is_old_is_read_when_it_is_asked_for_and_once() -> None:
    world = life(20, 5)
    topic = SimulatedTopic(world.log)
    store = TopicStore(topic, "orders")
    assert store.next_number(20) is None
    before = topic.read_messages
    assert [Record.read(store.read(seq) or b"", seq).fields["n"] for seq in (1, 2, 7)]
    assert len(world.log.messages) <= topic.read_messages - before < len(world.log.messages) + 10


def same_as_whole(world: World, records: int) -> TopicStore:
    """Return a store that was opened just now, and has so many records as one that has read all has."""
    found, whole = world.opened(), world.opened()
    with patch.object(topic_reader, "TAILS", ()):
        wanted = [whole.read(seq) for seq in range(1, records + 2)]
    assert [found.read(seq) for seq in range(records + 1, 0, -1)] == wanted[::-1]
    assert wanted.count(None) == 1
    return found


def test_an_index_of_a_topic_that_is_no_more_is_not_used() -> None:
    world = life(8, 3)
    frozen = world.writers[1]
    world.anew()
    world.writers = [world.opened() for _ in WRITERS]
    for _ in range(20):
        world.append(0)
        world.look(0)
    world.log.messages = [each for each in world.log.messages if INDEX not in each.headers]
    write_one(frozen, heartbeat_key(DRIVERS[0]), b"-")
    same_as_whole(world, 20)


def test_an_index_that_lies_is_not_used() -> None:
    world = life(8, 3)
    liar = world.writers[1]._reader.index
    world.log.messages = [each for each in world.log.messages if INDEX not in each.headers]
    liar.offsets = {seq: offset - 1 for seq, offset in liar.offsets.items()}
    world.beat(1, DRIVERS[0])
    assert INDEX in world.log.messages[-1].headers
    assert same_as_whole(world, 8)._reader._whole


def test_an_index_that_lies_is_found_out_also_when_the_first_try_fails() -> None:
    world = life(8, 3)
    other = world.opened()
    liar = world.writers[1]
    world.append(0)
    for _ in range(20):
        world.look(0)
    world.log.messages = [each for each in world.log.messages if INDEX not in each.headers]
    liar._reader.index.next_offset = world.log.end  # it has not read record 9
    write_one(liar, heartbeat_key(DRIVERS[0]), b"-")
    world.save(0)  # without an index, by one that has
    topic = Away(world.log)
    store = TopicStore(topic, "orders")
    with pytest.raises(ControlUnavailable, match="It is away"):
        store.next_number(9)
    assert store.next_number(9) is None
    assert store.read(9) == other.read(9)


def test_an_index_of_an_end_that_was_lost_is_not_used_where_that_shows() -> None:
    world = life(8, 3)
    frozen = world.writers[1]
    end = frozen._reader.index.next_offset
    world.log.messages, world.log.end = world.log.messages[:-2], world.log.end - 2
    world.writers = [world.opened() for _ in WRITERS]
    for _ in range(3):
        world.append(0)
    assert world.log.end > end
    world.log.messages = [each for each in world.log.messages if INDEX not in each.headers]
    write_one(frozen, heartbeat_key(DRIVERS[0]), b"-")
    assert same_as_whole(world, 11)._reader._whole


def test_a_heartbeat_that_was_removed_is_gone_for_all() -> None:
    world = life(3, 3)
    world.beat(2, DRIVERS[1])
    open_one = world.opened()
    assert open_one.heartbeats() == DRIVERS[:2]
    world.remove(0, DRIVERS[0])
    world.log.compact(world.log.end, tombstones=False)
    assert open_one.heartbeats() == world.opened().heartbeats() == [DRIVERS[1]]
    assert open_one.heartbeat(DRIVERS[0]) is None


def test_heartbeats_are_idle_by_the_brokers_clock() -> None:
    world = life(1, 1)  # a message a second
    for _ in range(5):
        world.beat(2, DRIVERS[1])
    store = world.opened()
    assert store.idle_heartbeats(3.0) == [DRIVERS[0]]
    assert store.idle_heartbeats(60.0) == []


def test_a_written_message_that_no_read_returns_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "READ_SECONDS", 0.05)

    class Stale(SimulatedTopic):
        """A leader of before, which does not know that it is none any more."""

        def read(self, offset: int, size: int = 0) -> Fetched:
            return Fetched((), offset, offset)

    with pytest.raises(ControlUnavailable, match="does not return offset 0"):
        TopicStore(Stale(SimulatedLog()), "orders").catch_up()


def test_a_heartbeat_larger_than_any_is_not_returned() -> None:
    world = life(1, 1)
    headers = {READ_TO: world.writers[0]._reader.index.read_to.to_header(), COUNT: b"9"}
    world.log.append(heartbeat_key(DRIVERS[0]).encode(), b"x" * (HEARTBEAT_LIMIT + 1), headers)
    with pytest.raises(Damaged, match="at most"):
        world.opened().heartbeat(DRIVERS[0])


def test_large_values_are_not_held_and_are_read_when_they_are_asked_for() -> None:
    world = life(1, 1)
    large, small = (str(number).encode() * (topic_index.HELD_VALUE + 1 - number) for number in range(2))
    store = world.opened()
    for driver, value in zip(DRIVERS, (large, small), strict=False):
        world.log.append(heartbeat_key(driver).encode(), value, {COUNT: b"9", **read_to(world)})
    assert [store.heartbeat(driver) for driver in DRIVERS] == [large, small, None]
    index = store._reader.index
    assert index.held == len(small) == sum(len(last.value or b"") for last in index.last.values())
    world.writers[0].remove_heartbeat(DRIVERS[1])
    assert store.heartbeats() == [DRIVERS[0]]
    assert index.held == 0


def test_many_values_are_held_in_one_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_index, "HELD_VALUES", 250)
    world = life(1, 1)
    for number, driver in enumerate(DRIVERS):
        world.log.append(heartbeat_key(driver).encode(), b"%d" % number * 100, {COUNT: b"9", **read_to(world)})
    store = world.opened()
    assert [store.heartbeat(driver) for driver in DRIVERS] == [b"%d" % number * 100 for number in range(3)]
    assert store._reader.index.held == 200


def test_records_are_held_up_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "_KEPT_BYTES", 500)
    store = life(20, 1).opened()
    for _ in range(2):
        assert [Record.read(store.read(seq) or b"", seq).fields["n"] for seq in range(1, 21)]
        held = store._reader._records
        assert store._reader._records_bytes == sum(map(len, held.values())) <= 500
    assert held


def test_behind_messages_that_are_too_large_together_the_log_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where nobody knows their keys: whoever may write to the topic does not fill the memory of who opens it."""
    world = life(6, 5)
    held: list[int] = []

    def noted(message: Message) -> Message:
        held.append(len(topic_index.cut(message).value or b""))
        return topic_index.cut(message)

    monkeypatch.setattr(topic_reader, "cut", noted)
    world.log.append(b"junk", b"x" * 2**20, {})
    world.beat(1, DRIVERS[0])
    assert same_as_whole(world, 6).heartbeats() == [DRIVERS[0]]
    assert max(held) < 1000
    monkeypatch.setattr(topic_reader, "TAIL_BYTES", 10)
    assert same_as_whole(world, 6).heartbeats() == [DRIVERS[0]]


def read_to(world: World) -> dict[str, bytes]:
    return {READ_TO: world.writers[0]._reader.index.read_to.to_header()}

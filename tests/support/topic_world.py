"""A simulated control topic with all who write to it, and what may happen to it, for Hypothesis to choose from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.control.topic_index import COUNT, INDEX, READ_TO, ReadTo, heartbeat_key, record_key
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, SeqTaken, StreamError
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

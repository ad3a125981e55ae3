"""Whoever opens a control topic from its end answers exactly as one that has read every message."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from airflow_stream_provider.control import topic_index, topic_reader
from airflow_stream_provider.control import topic_index as topic_header
from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message
from airflow_stream_provider.control.topic_index import COUNT, INDEX, READ_TO, heartbeat_key
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import (
    ControlUnavailable,
    Damaged,
)
from airflow_stream_provider.lifecycle.heartbeat import HEARTBEAT_LIMIT
from airflow_stream_provider.lifecycle.record import Record
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic
from tests.support.topic_world import (
    DRIVERS,
    WRITERS,
    World,
    act,
    answers,
    histories,
    write_one,
)


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with patch.object(topic_reader, "TAILS", (2, 5, 11)), patch.object(topic_header, "RECORDS", 3):
        yield


@settings(max_examples=150)
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


@settings(max_examples=60)
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

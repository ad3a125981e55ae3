"""The end of a topic: what Kafka does not do by itself, and people, or a disk, do. Nobody goes on as if nothing were.

No broker survives these, so no driver has to: a person puts the stream on its feet again (docs/trouble/damaged_log.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced, ControlUnavailable
from airflow_stream_provider.lifecycle.record import Record
from tests.support.simulation.bounds import PATIENT
from tests.support.simulation.brokers import Brokers, Connection
from tests.support.simulation.invariants import expect
from tests.support.simulation.topic_client import TopicClient
from tests.support.simulation.world import Actor, World

if TYPE_CHECKING:
    from tests.support.simulation.topic_seeds import TopicSimulation

# Until a driver has paused and halted, and its executors have ended.
SECONDS = 2 * PATIENT.lease_seconds + PATIENT.pause_seconds + 5.0
OTHER = "other-1.00000001"


def deleted(topic: Brokers) -> int:
    topic.exists = False
    return 0


def made_anew(topic: Brokers) -> int:
    topic.begin()
    return 0


def made_anew_and_grown(topic: Brokers) -> int:
    """Those who use it now have written more than there was before, or nearly so."""
    end = topic.end
    topic.begin()
    _grow(topic, end + topic.rng.randint(-3, 8))
    return 0


def put_back(topic: Brokers) -> int:
    """From a copy: another topic, with the messages up to a moment.

    Were it so short that others fill it up before a driver looks again, nobody might tell him.
    """
    messages = topic.messages[: max(1, topic.place(min(_lately(topic), topic.end - 12)))]
    topic.begin()
    topic.messages = messages
    topic.cut_to(messages[-1].offset + 1)
    return topic.truth.last


def end_lost(topic: Brokers) -> int:
    """By an unclean election: it goes on with what others write."""
    topic.cut_to(_lately(topic))
    return topic.truth.last


def end_written_anew(topic: Brokers) -> int:
    """The same, and others have written other records since."""
    end = topic.end
    kept = end_lost(topic)
    _another(topic)
    # Beyond what was read: one who goes on just behind it, before others write there, would not see it.
    _grow(topic, end + topic.rng.randint(1, 20))
    return kept


def beginning_lost(topic: Brokers) -> int:
    """By a retention that somebody has set: who has read it needs it no more."""
    topic.cut_from(topic.rng.randint(1, topic.high - 1))
    return topic.truth.last


def middle_lost(topic: Brokers) -> int:
    """A record by a disk, or by a person's tool."""
    winners = set(topic.truth.stored.values())
    records = [message for message in topic.messages if message.value in winners]
    topic.messages.remove(topic.rng.choice(records[:-1]))
    return topic.truth.last


DISASTERS: dict[str, Callable[[Brokers], int]] = {
    "topic deleted": deleted,
    "topic made anew": made_anew,
    "topic made anew and grown": made_anew_and_grown,
    "topic put back": put_back,
    "end lost": end_lost,
    "end written anew": end_written_anew,
    "beginning lost": beginning_lost,
    "middle lost": middle_lost,
}
# Those after which whoever has read more must end: he can see it.
SEEN = ("topic deleted", "topic made anew", "topic made anew and grown", "topic put back", "end written anew")


def befall(sim: TopicSimulation, name: str) -> None:
    """Let it come, and look what the drivers do then."""
    topic, world = sim.topic, sim.world
    sim.leave_the_drivers_alone()
    topic.airflow = Connection()  # whoever comes now reads from no broker that leads no more
    topic.disaster = name
    kept = DISASTERS[name](topic)
    drivers = [driver for driver in world.drivers.values() if not driver.over]
    deceived = [driver for driver in drivers if driver.log.state.seq > kept]
    for driver in drivers:
        if sim.rng.random() < 0.5:
            sim.later(sim.rng.uniform(3.0, 20.0), driver.terminate)
    others_write(sim, topic)
    sim.go(world.now + SECONDS)
    if name in SEEN:
        wrong = [driver.incarnation for driver in deceived if driver.writing or (driver.running and not driver.over)]
        expect(not wrong, "one-log", f"{wrong} after: {name}")
    believed = read_afresh(world, topic)
    if name in ("beginning lost", "middle lost"):
        expect(believed is None, "whole-log", f"{name}, and it was read")
    by = {f"driver:{driver.incarnation}" for driver in deceived}
    theirs = [record.seq for record in believed or () if record.seq > kept and record.by in by]
    expect(not theirs, "whole-log", f"{theirs} after: {name}")


def others_write(sim: TopicSimulation, topic: Brokers) -> None:
    """Whoever comes now reads the topic that is there, and writes to it what the watch does."""
    with contextlib.suppress(ControlLogDamaged, ControlLogReplaced, ControlUnavailable):
        _newcomer(sim.world, topic).catch_up()
    sim.later(0.7, lambda: others_write(sim, topic))


def read_afresh(world: World, topic: Brokers) -> list[Record] | None:
    """Return the records as somebody finds them who comes now; None: he refuses the log."""
    log = ControlLog(_newcomer(world, topic), "orders")
    try:
        log.refresh()
        return log.records()
    except (ControlLogDamaged, ControlLogReplaced, ControlUnavailable):
        return None


def _newcomer(world: World, topic: Brokers) -> TopicStore:
    world.current = newcomer = Newcomer(world)
    return TopicStore(TopicClient(newcomer, topic, by_name=False), "orders")


class Newcomer(Actor):
    """Somebody who is done at once, or waits for nothing."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.actors.remove(self)

    def point(self, rest: float = 0.0, doing: str = "") -> None:
        if rest:
            raise ControlUnavailable("It would have to wait.")


def _lately(topic: Brokers) -> int:
    """Return an offset among the last ones, mostly of a record or somewhat in front of one."""
    records = [message.offset for message in topic.messages if (message.key or b"").startswith(b"record/")]
    return max(1, topic.rng.choice(records[-3:]) - topic.rng.choice((0, 0, 1, 4)))


def _grow(topic: Brokers, end: int) -> None:
    """Let others write records and heartbeats up to an offset."""
    while topic.end < end:
        if topic.end % 4 == 0:
            _another(topic)
        else:
            topic.truth.put_heartbeat(OTHER, b'{"counter": 1}')


def _another(topic: Brokers) -> None:
    last = topic.truth.last
    record = Record("admired", by="others").numbered(last + 1, topic.truth.nonce_of(last))
    topic.truth.create(last + 1, record.to_json())

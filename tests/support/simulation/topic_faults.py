"""What befalls a control log in a topic: each fault by its name, and how it ends; with those of any log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_stream_provider.control.topic_index import heartbeat_key
from tests.support.simulation.brokers import Brokers, Connection
from tests.support.simulation.faults import FAULTS, STRIKE_LATER, Heal, a_driver, anybody
from tests.support.simulation.topic_client import AT_BEAT, TORN
from tests.support.simulation.topic_owner import Claimant
from tests.support.simulation.topic_wire import TopicWorld
from tests.support.simulation.wire import Fault
from tests.support.simulation.world import Actor

if TYPE_CHECKING:
    from tests.support.simulation.seeds import Simulation

# What befalls files only: a full disk, a call that is made again, a record that the disk has torn.
OF_FILES = ("store full", "write repeated", "damaged record")


def _topics(sim: Simulation) -> tuple[Brokers, ...]:
    assert isinstance(sim.world, TopicWorld)
    return sim.world.topics


def _connections(sim: Simulation, somebody: Callable[[Simulation], Actor | None] = anybody) -> list[Connection]:
    """How somebody reaches the topics; also who asks whose a checkpoint is."""
    claimants = [a for a in sim.world.actors if isinstance(a, Claimant) and not a.over]
    process = sim.pick(claimants) if claimants and sim.rng.random() < 0.1 else somebody(sim)
    return [] if process is None else [topic.of(process) for topic in _topics(sim)]


def too_few_in_sync(sim: Simulation) -> Heal | None:
    """Writes are refused, or appended by a leader alone, and committed later or lost."""
    topics = _topics(sim)
    if topics[0].short:
        return None
    for topic in topics:
        topic.short = True

    def heal() -> None:
        for topic in topics:
            topic.replicate()

    return heal


def new_leader(sim: Simulation) -> Heal | None:
    """What was not acknowledged may be gone, and what was is not shown at once (KIP-207); its clock is another one."""
    topics = _topics(sim)
    for topic in topics:
        topic.elect()

    def heal() -> None:
        for topic in topics:
            topic.shown = None

    return heal


def old_leader(sim: Simulation) -> Heal | None:
    """One process, or all of Airflow, reads from a broker that leads no more, and perhaps writes to it, too.

    It has what was committed until now.
    """
    topics, all_of_airflow = _topics(sim), sim.rng.random() < 0.4
    connections = [topic.airflow for topic in topics] if all_of_airflow else _connections(sim)
    if not connections or connections[0].stale_end is not None:
        return None
    writes_fail = sim.rng.random() < 0.4
    for topic, connection in zip(topics, connections, strict=True):
        connection.stale_end, connection.writes_fail = topic.high, writes_fail

    def heal() -> None:
        for connection in connections:
            connection.stale_end, connection.writes_fail = None, False

    if not all_of_airflow:
        return heal
    # Also while all others are well.
    sim.later(sim.rng.uniform(5.0, 60.0), heal)
    return sim.nothing


def connection_torn(sim: Simulation) -> Heal | None:
    """One request of somebody gets no answer, for instance that which reads back what was written."""
    connections = _connections(sim)
    for connection in connections:
        connection.tears = sim.rng.randrange(5)
    return sim.nothing if connections else None


def compaction(sim: Simulation) -> Heal | None:
    """Kafka removes what is superseded."""
    for topic in _topics(sim):
        topic.clean()
    return sim.nothing


def _at_beat(fault: Fault) -> Callable[[Simulation], Heal | None]:
    def befall(sim: Simulation) -> Heal | None:
        """What happens to somebody's next heartbeat, or claim."""
        connections = _connections(sim, a_driver)
        for connection in connections:
            connection.at_beat = fault

        def heal() -> None:
            for connection in connections:
                connection.at_beat = Fault.NONE

        return heal if connections else None

    return befall


def heartbeat_removed(sim: Simulation) -> Heal | None:
    """A person removes a heartbeat, with a tool that writes no headers; also a living driver's."""
    driver = a_driver(sim)
    if driver is None or sim.world.store.heartbeat(driver.incarnation) is None:
        return None
    topic = _topics(sim)[0]
    topic.append(heartbeat_key(driver.incarnation).encode(), None, {})
    topic.commit()
    sim.world.torn_beats.add(driver.incarnation)
    return sim.nothing


OF_TOPICS: dict[str, Callable[[Simulation], Heal | None]] = {
    "too few in sync": too_few_in_sync,
    "new leader": new_leader,
    "old leader": old_leader,
    TORN: connection_torn,
    "compaction": compaction,
    **{name: _at_beat(fault) for fault, name in AT_BEAT.items()},
    "heartbeat removed": heartbeat_removed,
}
STRIKE_LATER_IN_TOPICS = STRIKE_LATER | {TORN, *AT_BEAT.values()}
TOPIC_FAULTS = {**{name: fault for name, fault in FAULTS.items() if name not in OF_FILES}, **OF_TOPICS}

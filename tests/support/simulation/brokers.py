"""A topic as its brokers keep it: what is committed, what only the leader has, and what it loses. No broker.

What is committed, all replicas in sync have; nobody reads more, and it is never lost. What a leader has appended and
could not have copied is committed later, or lost with that leader: its writer does not know.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from tests.support.simulated_topic import SimulatedLog
from tests.support.simulation.topic_truth import TopicTruth
from tests.support.simulation.wire import Fault

if TYPE_CHECKING:
    from tests.support.simulation.world import World

# Compaction leaves the segment alone that is written to.
ACTIVE = 8


class Connection:
    """How one process reaches the brokers.

    :ivar stale_end: it reads from a broker that leads no more, which has the topic up to here; None: from the leader.
    :ivar writes_fail: its writes go to that broker, too.
    :ivar tears: after so many requests one gets no answer; below 0: none.
    :ivar at_beat: what happens to its next heartbeat.
    """

    def __init__(self) -> None:
        self.stale_end: int | None = None
        self.writes_fail = False
        self.tears = -1
        self.at_beat = Fault.NONE


class Brokers(SimulatedLog):
    """What the brokers of one topic have. `messages`: also those that are not committed.

    :ivar high: the high watermark: the offset behind the last committed message.
    :ivar shown: how far a new leader knows that; None: it knows all.
    :ivar short: fewer replicas are in sync than `min.insync.replicas` asks for.
    :ivar first: the first offset that it keeps.
    """

    def __init__(self, seed: str) -> None:
        self.rng = Random(seed)
        self.world: World | None = None
        self.connections: dict[object, Connection] = {}
        # Of all processes of Airflow, while they have one that is worse than their own.
        self.airflow = Connection()
        self.high = self.first = 0
        self.shown: int | None = None
        self.short = False
        self.exists = True
        self.skew = 0.0
        # What befell it that no person, and no fault of a broker that Kafka survives, does: the log is another one.
        self.disaster = ""
        self._beats: dict[int, tuple[str, float]] = {}
        super().__init__()

    def begin(self) -> None:
        """Make the topic anew, empty."""
        super().begin()
        self.id = f"{self.rng.getrandbits(128):032x}"
        self.high = self.first = 0
        self.truth = TopicTruth(self)

    def of(self, process: object) -> Connection:
        """Return how a process reaches them."""
        found = self.connections.get(process)
        if found is None:
            found = self.connections[process] = Connection()
        return found

    # -- what clients ask for --------------------------------------------------------------------------------------

    def produce(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes], sent: float) -> int:
        """Append a message for a producer that waits for all replicas in sync.

        :raises ControlUnavailable: too few are in sync, before or after it was appended.
        """
        if not self.exists:
            raise ControlUnavailable("The topic does not exist.")
        if self.short and self.rng.random() < 0.4:
            raise ControlUnavailable("NOT_ENOUGH_REPLICAS")
        offset = self.append(key, value, headers)
        kind, _, name = key.decode().partition("/")
        if kind == "heartbeat":
            self._beats[offset] = (name, sent)
        if self.short:
            # The leader alone is in sync: by its version, and the cluster's, readers see the message, or do not yet.
            if self.high == offset and self.rng.random() < 0.4:
                self.commit()
            raise ControlUnavailable("NOT_ENOUGH_REPLICAS_AFTER_APPEND")
        self.commit()
        return offset

    def append(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Append a message at the leader, dated by its clock."""
        now = 0.0 if self.world is None else self.world.now
        self.messages.append(Message(self.end, key, value, dict(headers), now + self.skew))
        self.end += 1
        return self.end - 1

    def commit(self) -> None:
        """All replicas have all of it."""
        for message in self.messages[self.place(self.high) :]:
            counts = self.truth.take(message)
            name, sent = self._beats.pop(message.offset, ("", 0.0))
            if counts and name and self.world is not None:
                driver = self.world.drivers[name]
                driver.beat_at = max(driver.beat_at, sent)
                self.world.torn_beats.discard(name)
        self.high, self.shown = self.end, None

    def place(self, offset: int) -> int:
        """Return where the messages from an offset on begin."""
        return bisect_left(self.messages, offset, key=_offset)

    # -- what befalls them -----------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Another broker leads: it lacks what was not committed, and does not know at once what was (KIP-207)."""
        self.short = False
        del self.messages[self.place(self.high) :]
        self.end = self.high
        self._beats.clear()
        self.shown = max(self.first, self.high - self.rng.randrange(12))
        self.skew = self.rng.choice((-3600.0, -2.0, 0.0, 0.5, 30.0, 86400.0))

    def replicate(self) -> None:
        """The replicas are in sync again, unless another leader came before that."""
        if not self.short:
            return
        if self.rng.random() < 0.5:
            self.elect()
        self.short = False
        self.commit()

    def clean(self) -> None:
        """Compact what is older than the active segment; tombstones stay for a day."""
        self.compact(max(0, self.high - self.rng.choice((ACTIVE, 50))), tombstones=self.rng.random() < 0.2)

    def cut_to(self, offset: int) -> None:
        """Lose committed messages, from an offset on: an unclean election, or a disk."""
        del self.messages[self.place(offset) :]
        self._forget(offset)

    def cut_from(self, offset: int) -> None:
        """Lose the messages before an offset: a retention that somebody has set."""
        del self.messages[: self.place(offset)]
        self.first = offset

    def _forget(self, end: int) -> None:
        self.end = self.high = end
        self.truth = TopicTruth(self)
        for message in self.messages:
            self.truth.take(message)


def _offset(message: Message) -> int:
    return message.offset

"""The state machine of the model check over a control log in a topic, with what befalls brokers and their clients."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.support.simulation.machine import Streams, some
from tests.support.simulation.topic_wire import TopicWorld
from tests.support.simulation.wire import Fault
from tests.support.simulation.world import World


class StreamsOnTopic(Streams):
    """The same over the product's `TopicStore`, and simulated brokers and clients."""

    # A topic that has lost a record, or has one that nobody can read, stays so: those are the seeds' disasters.
    somebody_forges_what_nobody_can_follow = None  # type: ignore[assignment]  # no rule
    the_disk_loses_a_record = None  # type: ignore[assignment]

    def new_world(self) -> World:
        self.topics = TopicWorld(0)
        return self.topics

    @rule()
    def another_broker_leads(self) -> None:
        """What was not acknowledged may be gone, and what was is not shown at once (KIP-207)."""
        self.topics.log_topic.elect()

    @rule()
    @precondition(lambda self: not self.topics.log_topic.short)
    def too_few_are_in_sync(self) -> None:
        """Writes are refused, or appended by a leader alone, and committed later or lost."""
        self.topics.log_topic.short = True

    @rule(which=some, writes_fail=st.booleans())
    def a_broker_that_leads_no_more_answers(self, which: int, writes_fail: bool) -> None:
        """One process reads what was committed until now, or all of Airflow does."""
        topic, awake = self.topics.log_topic, self.world.awake()
        found = topic.of(awake[which % len(awake)].process) if awake else topic.airflow
        found.stale_end, found.writes_fail = topic.high, writes_fail

    @rule(which=some, after=st.integers(0, 4))
    @precondition(lambda self: self.world.drivers)
    def a_connection_is_torn(self, which: int, after: int) -> None:
        drivers = list(self.world.drivers.values())
        self.topics.log_topic.of(drivers[which % len(drivers)]).tears = after

    @rule(which=some, fault=st.sampled_from([Fault.LOST, Fault.ANSWER_LOST, Fault.LATE]))
    @precondition(lambda self: self.world.drivers)
    def a_heartbeat_goes_astray(self, which: int, fault: Fault) -> None:
        drivers = list(self.world.drivers.values())
        self.topics.log_topic.of(drivers[which % len(drivers)]).at_beat = fault

    @rule()
    def it_is_compacted(self) -> None:
        self.topics.log_topic.clean()

    @rule()
    def all_comes_back(self) -> None:
        self._brokers_come_back()
        super().all_comes_back()

    def _brokers_come_back(self) -> None:
        topic = self.topics.log_topic
        topic.replicate()
        topic.shown = None
        for each in (topic.airflow, *topic.connections.values()):
            each.stale_end, each.writes_fail, each.tears, each.at_beat = None, False, -1, Fault.NONE

    def end(self) -> None:
        self._brokers_come_back()
        super().end()

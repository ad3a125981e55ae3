"""One seed over a control log in a topic."""

from __future__ import annotations

import contextlib
from unittest.mock import ANY

from airflow_stream_provider.lifecycle.errors import ControlLogReplaced
from tests.support.simulation.bounds import PATIENT, POLICY
from tests.support.simulation.brokers import Brokers
from tests.support.simulation.data import Data
from tests.support.simulation.disasters import DISASTERS, befall
from tests.support.simulation.driver import Driver
from tests.support.simulation.liveness import Liveness
from tests.support.simulation.oracle import Oracle
from tests.support.simulation.result import Result
from tests.support.simulation.seeds import Simulation
from tests.support.simulation.topic_faults import OF_TOPICS, STRIKE_LATER_IN_TOPICS, TOPIC_FAULTS
from tests.support.simulation.topic_owner import Claimant
from tests.support.simulation.topic_wire import TopicWorld
from tests.support.simulation.world import Actor, World

CLAIMANTS = 3


class TopicSimulation(Simulation):
    """One stream and its machines, under the faults of one seed; its control log is in a topic."""

    faults = TOPIC_FAULTS
    strike_later = STRIKE_LATER_IN_TOPICS

    def new_world(self, seed: int) -> World:
        return TopicWorld(seed, Data(), POLICY, PATIENT)

    def draw_fault(self) -> str:
        return self.rng.choice(list(OF_TOPICS)) if self.rng.random() < 0.4 else super().draw_fault()

    def run(self) -> Result:
        assert isinstance(self.world, TopicWorld)
        told: list[str] = []
        for number in range(CLAIMANTS):
            Claimant(self.world, f"stream-{number}", self.rng.uniform(0.0, 60.0), told)
        return super().run()

    @property
    def topic(self) -> Brokers:
        """The topic of the control log."""
        assert isinstance(self.world, TopicWorld)
        return self.world.log_topic

    def last_phase(self) -> None:
        """In some seeds, the topic is lost."""
        if self.rng.random() < 0.4:
            disaster = self.rng.choice(list(DISASTERS))
            self.say(f"-- {disaster}")
            self.result.disasters[disaster] += 1
            befall(self, disaster)

    def leave_the_drivers_alone(self) -> None:
        """Airflow goes, and nobody follows the log any more: there is none that is whole."""
        self._events.clear()
        for actor in self.world.living():
            if not isinstance(actor.process, Driver):
                actor.crash()
        assert self.world.data is not None
        self.world.data.holder = ANY
        self.oracle = Blind(self.world)
        self.liveness = Resigned(self.world, self.oracle, self.people)

    def _step(self, actor: Actor) -> None:
        with contextlib.suppress(*[ControlLogReplaced] * bool(self.topic.disaster)):  # its thread ends
            super()._step(actor)


class Blind(Oracle):
    """Follows no log."""

    def look(self) -> None:
        return


class Resigned(Liveness):
    """Expects nothing to go on."""

    def expect_taken_back(self) -> None:
        return

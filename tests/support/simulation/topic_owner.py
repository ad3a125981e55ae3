"""Whose a checkpoint is: drivers of several streams claim one in the topic of the control root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_stream_provider.control.owners import TopicOwners
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from tests.support.simulation.invariants import expect
from tests.support.simulation.topic_client import TopicClient
from tests.support.simulation.world import Actor

if TYPE_CHECKING:
    from tests.support.simulation.topic_wire import TopicWorld

LOCATION = "s3a://bucket/checkpoint"
RETRY_SECONDS = 1.0
AGAIN_SECONDS = 15.0


class Claimant(Actor):
    """A driver of another stream, whose script names the same checkpoint.

    :param told: what each claimant was told, in the order of the answers.
    """

    def __init__(self, world: TopicWorld, stream: str, begins: float, told: list[str]) -> None:
        super().__init__(world)
        self._world = world
        self._stream = stream
        self._told = told
        self.due += begins

    @property
    def clock(self) -> float:
        """Its monotonic clock."""
        return self._world.now

    def run(self) -> None:
        while True:
            try:
                # A driver that was started again, and knows nothing.
                owners = TopicOwners(lambda: TopicClient(self, self._world.root, by_name=True))
                self._hear(owners.claim(LOCATION, self._stream))
                self.point(AGAIN_SECONDS)
                # A broker that was left behind may not know the claim: then a driver claims.
                self._hear(owners.owner(LOCATION) or self._told[0])
                self.point(AGAIN_SECONDS)
            except ControlUnavailable:
                self.point(RETRY_SECONDS)

    def _hear(self, owner: str) -> None:
        expect(not self._told or self._told[0] == owner, "one-owner", f"{owner}, and {self._told[:1]} before")
        self._told.append(owner)

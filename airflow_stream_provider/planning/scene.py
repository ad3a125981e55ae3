"""The facts that a decision goes by: a snapshot, who decides, and what a wait has found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.planning.waits import WaitOutcome


@dataclass(frozen=True)
class Scene:
    """One look, as `reconcile` needs it.

    :param me: the task, command or run that decides.
    :param outcome: how its last wait ended; None before the first.
    :param lives: what is known besides of drivers (by incarnation) and of deployments without a live driver in the log:
        True when it beats, or the cluster says that it runs; False when it is gone, or has stood still for a lease.
    :param before: counters of the heartbeats at an earlier look; a driver whose counter has grown since is alive.
    :param hangs: why the holder is fenced without being asked: it would not stop; empty: it is asked.
    """

    snapshot: Snapshot
    me: TaskIdentity
    outcome: WaitOutcome | None = None
    lives: Mapping[str, bool | None] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    hangs: str = ""

    @property
    def state(self) -> StreamState:
        """The state of the log."""
        return self.snapshot.state

    @cached_property
    def alive(self) -> Mapping[str, bool | None]:
        """Whether drivers, and deployments that come up, live; missing or None: that is not known."""
        snapshot, known = self.snapshot, self.snapshot.state.incarnations
        beaten = {n: True for n, c in self.before.items() if n in known and snapshot.counter(n) > c}
        gone = {
            name: False
            for name, driver in snapshot.drivers.items()
            if driver.out_of_sight and all(i.state.terminal for i in self.state.of_deployment(name))
        }
        return {**self.lives, **beaten, **SignsOfLife.found(self.outcome, snapshot), **gone}

"""The base of what a task can wait for that has to do with a stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lag.moments import Moments
from airflow_stream_provider.planning.heartbeat_age import HeartbeatAges
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.soak import SoakLook
from airflow_stream_provider.planning.wait_loop import WaitCondition


@dataclass
class Observations:
    """The observations of one observer of a stream so far."""

    ages: HeartbeatAges = field(default_factory=HeartbeatAges)
    samples: list[SoakLook] = field(default_factory=list)
    over: bool = False  # at the last look the soak's time was over
    out_of_sight: float | None = None  # since when the cluster does not say that a job is gone, nor that it is there
    in_sight: float | None = None  # since when a driver that is to be gone is shown, by this machine's clock
    mute: tuple[DriverState, float] | None = None  # a driver that is to come up says nothing: its state, since when


@dataclass(frozen=True)
class Needs:
    """The needs of a look besides the control log and the heartbeats.

    :param drivers: deployments whose driver the cluster is asked about.
    :param lag: what the lag report must say exactly; None: the lag is not measured.
    :param job: the cluster's id of a job without a stream that it is asked about; empty: none.
    """

    drivers: tuple[str, ...] = ()
    lag: Moments | None = None
    job: str = ""


class Condition(WaitCondition[Snapshot, Observations]):
    """Base of the conditions on a stream. `pace`: seconds between two looks."""

    pace: ClassVar[float] = 2.0

    def new_memory(self) -> Observations:
        """Return observations without any look."""
        return Observations()

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Return what the next look must include, from the last one."""
        return Needs()

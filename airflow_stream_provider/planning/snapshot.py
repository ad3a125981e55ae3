"""The snapshot of a stream: frozen, shared by operators, sensors, triggers and the UI. Observers never act."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import Incarnation, StreamState
from airflow_stream_provider.lifecycle.texts import duration

if TYPE_CHECKING:
    from airflow_stream_provider.clusters import DriverState, UnmanagedView
    from airflow_stream_provider.lag.report import LagReport


@dataclass(frozen=True)
class DriverFacts:
    """The cluster's answer on a deployment's driver.

    :param gone: driver and executors are confirmed gone.
    :param lost: what may be left of them was on a machine that the cluster has lost, and cannot be asked about.
    """

    submission: str
    state: DriverState
    gone: bool = False
    lost: bool = False

    @property
    def out_of_sight(self) -> bool:
        """Whether the cluster lists nothing of it any more; only `gone` is a proof."""
        return self.gone or self.lost


@dataclass(frozen=True)
class Snapshot:
    """A stream at one moment (`at`, seconds of this machine's clock).

    `records` are the last legal ones up to the state's (`ControlLog.history`). `drivers` (by deployment) and `lag` are
    there only if they were asked for; `lag` is None when Kafka, or how far the stream is, could not be read: unknown,
    not zero. `job` is what the cluster says of a job without a stream, if that was asked for; None too where the
    cluster cannot end one. `read_at` is the monotonic clock of this machine from before the heartbeats were read; None:
    as of now.
    """

    stream: str
    at: float
    state: StreamState
    records: tuple[Record, ...] = ()
    heartbeats: Mapping[str, Heartbeat] = field(default_factory=dict)
    drivers: Mapping[str, DriverFacts] = field(default_factory=dict)
    lag: LagReport | None = None
    read_at: float | None = None
    job: UnmanagedView | None = None

    @property
    def holding(self) -> str:
        """The deployment that holds the stream, or an empty text."""
        return deployment_of(self.state.holder) if self.state.holder else ""

    @property
    def holder_sentence(self) -> str:
        """The holder of the stream, for a person."""
        held = self.state.holding_deployment
        if held is None:
            return f"Nobody holds the stream (it is {self.state.phase.value})."
        silent = self.silent_seconds
        sign = "" if silent is None else f"; its driver's last sign of life is {duration(silent)} old"
        return f"{held.id} (release {held.release.version}) holds the stream{sign}."

    @property
    def holder_heartbeat(self) -> Heartbeat | None:
        """The heartbeat of the driver that holds; None when none does, or it is not known."""
        return self.heartbeats.get(self.state.holder or "")

    @property
    def silent_seconds(self) -> float | None:
        """Age of the last heartbeat of the holder, or without one of the last holder; None when it is not known.

        For people, by the driver's clock and this machine's, which agree within seconds. Nothing is decided by it.
        """
        beat = self.heartbeats.get(self.state.last_holder or "")
        return max(0.0, self.at - beat.at) if beat is not None and beat.at else None

    @property
    def free_since(self) -> float:
        """The end of the last hold, by its author's clock; 0 when a driver holds or the record is not here."""
        return next((r.at for r in reversed(self.records) if r.seq == self.state.held_to), 0.0)

    def counter(self, incarnation: str) -> int:
        """The counter of an incarnation's heartbeat; -1 when it never wrote one."""
        heartbeat = self.heartbeats.get(incarnation)
        return -1 if heartbeat is None else heartbeat.counter

    def submission(self, deployment: str) -> str:
        """The submission of a deployment: from the log, else as its driver says itself; empty when not known."""
        return submission_of(deployment, self.state, self.heartbeats)

    def candidate(self, deployment: str) -> Incarnation | None:
        """The newest incarnation of a deployment that can be asked to take over, or None."""
        found = (i for i in self.state.of_deployment(deployment) if live_standby(self.state, i.id))
        return max(found, key=lambda i: i.announced, default=None)

    def holds(self, deployment: str) -> bool:
        """Whether this deployment holds the stream."""
        return bool(deployment) and self.holding == deployment

    def has_committed(self, incarnation: str) -> bool:
        """Whether every query that a driver announced has committed a batch in it, as its heartbeat says."""
        committed = {query.name for query in self._progress(incarnation) if query.commits}
        return committed.issuperset(query["name"] for query in self.state.incarnations[incarnation].queries)

    def has_reported(self, incarnation: str) -> bool:
        """Whether a driver knows how far each query is that it announced; the last batch may be an earlier driver's."""
        reported = {query.name for query in self._progress(incarnation) if query.batch is not None}
        return reported.issuperset(query["name"] for query in self.state.incarnations[incarnation].queries)

    def _progress(self, incarnation: str) -> tuple[QueryProgress, ...]:
        heartbeat = self.heartbeats.get(incarnation)
        return heartbeat.queries if heartbeat else ()

    @property
    def in_request(self) -> frozenset[str]:
        """The deployments that the open request is about: whose driver is to hold, and whose gives the stream up."""
        request = self.state.open_request
        drivers = () if request is None else (request.to, request.source)
        return frozenset(deployment_of(driver) for driver in drivers if driver)

    def live_deployments(self) -> tuple[str, ...]:
        """The deployments that have not ended and do not hold the stream, oldest first."""
        return tuple(d.id for d in self.state.deployments.values() if not d.ended and not self.holds(d.id))

    def acquisitions(self) -> tuple[Record, ...]:
        """The changes of holder among the records, oldest first."""
        return tuple(record for record in self.records if record.kind == Kind.ACQUIRED)

    def release_for(self, request: str) -> dict[str, Any]:
        """How the old holder stopped for a request: `boundary`, and `ends` with the last batch by query; or {}."""
        released = (r for r in self.records if r.kind == Kind.RELEASED and r.get("request") == request)
        return _stopped(next(released, None))

    def release_before(self, acquired: Record) -> dict[str, Any]:
        """How the holder before this acquisition stopped: as `release_for`; {} when it has not released, but died."""
        before = [record for record in self.acquisitions() if record.seq < acquired.seq]
        if not before:
            return {}
        ends = (r for r in self.records if r.kind == Kind.RELEASED and before[-1].seq < r.seq < acquired.seq)
        return _stopped(next(ends, None))

    def previous(self, deployment: str) -> str:
        """The deployment that held the stream before this one first did (before now, if it never did); or empty."""
        found = self.state.deployments.get(deployment)
        if found is not None and found.previous is not None:
            return found.previous
        return deployment_of(self.state.last_holder or "")

    def declared(self, deployment: str) -> Record:
        """Return the `declared` record of a deployment that the log knows."""
        return self.state.deployments[deployment].declared

    def why_ended(self, deployment: str) -> str:
        """Why a deployment ended: the reason in the log, and the error behind it unless the reason has it; or empty."""
        reason = self.state.deployments[deployment].reason
        failed = self._failed(deployment)
        error = str(failed.get("error") or "") if failed else ""
        message = error.partition(": ")[2] or error
        return reason if not message or message in reason else f"{reason.rstrip('.')}: {error.rstrip('.')}."

    def log_of_failed(self, deployment: str) -> str:
        """A deployment that failed by what others found: only its driver's own log can say why; empty for any other."""
        failed = self._failed(deployment)
        return deployment if failed is not None and not failed.get("incarnation") else ""

    def _failed(self, deployment: str) -> Record | None:
        failed = (r for r in reversed(self.records) if r.kind == Kind.FAILED and r["deployment"] == deployment)
        return next(failed, None)

    def policy(self, deployment: str) -> Policy:
        """The policy of a deployment; the default one for a deployment that the log does not know."""
        found = self.state.deployments.get(deployment)
        return found.policy if found else Policy()

    def lease(self, incarnations: Iterable[str]) -> float:
        """The longest lease of these incarnations, in seconds; the default lease when there are none."""
        leases = (self.policy(deployment_of(name)).lease_seconds for name in incarnations)
        return max(leases, default=Policy.lease_seconds)

    def holder_result(self, deployment: str) -> dict[str, Any]:
        """The XCom of a task that made, or found, this deployment to be the holder."""
        return {
            "stream": self.stream,
            "deployment": deployment,
            "version": self.state.deployments[deployment].release.version,
            "previous": self.previous(deployment),
            "holder": self.holding,
            "epoch": self.state.epoch,
        }


def _stopped(released: Record | None) -> dict[str, Any]:
    return {} if released is None else {"boundary": released["boundary"], "ends": released.get("ends", {})}


def submission_of(deployment: str, state: StreamState, heartbeats: Mapping[str, Heartbeat]) -> str:
    """Return the cluster's id of a deployment's driver: from the log, else as the driver itself says; else empty."""
    declared = state.deployments.get(deployment)
    if declared is not None and declared.submission:
        return declared.submission
    beats = (beat for name, beat in heartbeats.items() if deployment_of(name) == deployment)
    return next((beat.submission for beat in beats if beat.submission), "")

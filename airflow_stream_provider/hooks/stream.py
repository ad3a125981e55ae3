"""Observe one stream from Airflow and act on it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_stream_provider.clusters import Cluster, UnmanagedView, Whose, open_cluster
from airflow_stream_provider.control.bounded import call, start
from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.control.store import ControlRoot, Samples
from airflow_stream_provider.hooks.connections import Connected, aconnect, connect
from airflow_stream_provider.hooks.control import Newest, acontrol_root, control_root
from airflow_stream_provider.hooks.drivers import driver_facts, kill_drivers, living_heartbeats
from airflow_stream_provider.hooks.ledger import refuse_writer
from airflow_stream_provider.hooks.stream_releases import StreamReleases
from airflow_stream_provider.hooks.submit import job_of, submit_once, way_to_log
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.reader import measure_sources
from airflow_stream_provider.lag.targets import read_sources
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SeqTaken, SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import check_stream_name
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.skip import skipped
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.waits import Needs
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.open_place import address_of
from airflow_stream_provider.spec.watched import renewed

if TYPE_CHECKING:
    from airflow_stream_provider.clusters import Job
    from airflow_stream_provider.lag.limits import Moments
    from airflow_stream_provider.lag.report import LagReport
    from airflow_stream_provider.planning.steps import Declare, Refusal, Want
    from airflow_stream_provider.spec.requested_release import RequestedRelease
    from airflow_stream_provider.spec.stream import StreamSpec


# How long a task waits by itself for the end of a job that it has the cluster end: a trigger would come to it later.
END_SECONDS = 20.0
# A transaction of the driver that is to be refused may have to end first: its own database ends one that hangs.
REFUSE_SECONDS = 60.0


class StreamHook(BaseHook):
    """The control log, the cluster and the Kafka of one stream.

    Opens nothing before it is needed. All calls block, except `aobserve`. Not thread-safe.

    :param stream: name of the stream.
    :param control: control URL, such as ``file:///data/streams``.
    :param cluster: Airflow connection id of the Spark cluster.
    :param kafka: Airflow connection id of Kafka; None: the lag is not known.
    :param storage: URL of the storage of new releases; None: the control folder, which one in Kafka has not.
    :param storage_connection: Airflow connection id of that storage; None: the credentials of the environment.
    """

    def __init__(
        self,
        stream: str,
        control: str,
        cluster: str,
        kafka: str | None = None,
        storage: str | None = None,
        storage_connection: str | None = None,
    ) -> None:
        super().__init__()
        self.stream = check_stream_name(stream)
        self.control = control
        self.cluster_conn_id = cluster
        self.kafka_conn_id = kafka
        self.storage = StorageAddress.parse(storage).url if storage else ""
        self.storage_conn_id = storage_connection
        # No cached_property: before Python 3.12 it holds one lock for the hooks of all streams, and one may hang.
        self._connected: Connected | None = None
        self._root: ControlRoot | None = None
        self._log_opened: ControlLog | None = None
        self._newest: Newest | None = None
        self._cluster: Cluster | None = None
        # Spark conf of what is submitted, besides the release's own: whose run it is for OpenLineage.
        self.parent_job: Mapping[str, str] = {}

    @classmethod
    def of(cls, spec: StreamSpec) -> StreamHook:
        """Return the hook of a stream."""
        return cls(spec.name, spec.control, spec.cluster, spec.kafka, spec.storage, spec.storage_connection)

    @property
    def address(self) -> dict[str, Any]:
        """The arguments that open this hook again in another process, to observe; triggers carry them."""
        return {
            "stream": self.stream,
            "control": self.control,
            "cluster": self.cluster_conn_id,
            "kafka": self.kafka_conn_id,
        }

    @property
    def folder(self) -> Path | None:
        """The stream's folder under the control URL; None where that is in Kafka."""
        return self.root.stream_folder(self.stream)

    @property
    def root(self) -> ControlRoot:
        """Where the control log lives, with those of other streams."""
        if self._root is None:
            self._root = control_root(self.control)
        return self._root

    @property
    def releases(self) -> StreamReleases:
        """Where its releases are."""
        return StreamReleases(self.root, self.control, self.stream, self.storage, self.storage_conn_id)

    @property
    def control_log(self) -> ControlLog:
        """The control log of a stream that exists."""
        if self._log_opened is None:
            self._log_opened = ControlLog(self.root.store(self.stream), self.stream)
        return self._log_opened

    @property
    def samples(self) -> Samples:
        """The samples that the watch keeps of the stream."""
        return self.root.samples(self.stream)

    @property
    def cluster(self) -> Cluster:
        """The cluster that the connection names."""
        if self._cluster is None:
            self._cluster = open_cluster(self._connections.cluster)
        return self._cluster

    @property
    def _connections(self) -> Connected:
        if self._connected is None:
            self._connected = connect(self.cluster_conn_id, self.kafka_conn_id)
        return self._connected

    # -- looking ---------------------------------------------------------------------------------------------------

    def observe(self, needs: Needs = Needs(), *, history: bool = True) -> Snapshot:  # noqa: B008 - frozen
        """Return a snapshot of the stream; changes nothing.

        :param history: whether the snapshot has `records`: of a log that was opened from its saved state, they are up
            to 2,000 files. Default True.
        :raises ControlUnavailable: the control log cannot be read now.
        :raises ControlLogDamaged: it cannot be read whole, or a driver has read further than it goes.
        :raises ControlLogReplaced: it is not the log that this hook read before.
        """
        # The cluster first, then the log: a driver that the cluster calls gone has then written its last record.
        drivers = self._drivers(needs.drivers)
        job = self.job(needs.job) if needs.job else None
        state = self.control_log.refresh()
        records = self.control_log.history() if history else ()
        read_at = time.monotonic()
        heartbeats = living_heartbeats(self.control_log, state)
        self.check_newest(heartbeats)
        lag = None if needs.lag is None else self._lag(state, heartbeats, needs.lag)
        return Snapshot(self.stream, time.time(), state, records, heartbeats, drivers, lag, read_at, job)

    def check_newest(self, heartbeats: Mapping[str, Heartbeat]) -> None:
        """Check that the log, as it was read last, has every record that a driver has read; see `Newest.check`."""
        self._newest = self._newest or Newest(self.control_log)
        self._newest.check(heartbeats)

    async def aobserve(self, needs: Needs) -> Snapshot:
        """Return a snapshot of the stream, from a trigger's event loop; see `observe`.

        A folder or cluster that does not answer keeps the thread of this look, and no other one.
        """
        if self._root is None:
            self._root = await acontrol_root(self.control)
        if (needs.drivers or needs.job or needs.lag is not None) and self._connected is None:
            self._connected = await aconnect(self.cluster_conn_id, self.kafka_conn_id)
        return await asyncio.wrap_future(start(partial(self.observe, needs), f"look-{self.stream}"))

    def _drivers(self, deployments: Iterable[str]) -> Mapping[str, DriverFacts]:
        found = {each: driver_facts(self.control_log, self.cluster, self.whose(each)) for each in deployments}
        return {deployment: facts for deployment, facts in found.items() if facts is not None}

    def _lag(self, state: StreamState, heartbeats: Mapping[str, Heartbeat], moments: Moments) -> LagReport | None:
        """Return the lag; None, with a line in the log, while it cannot be measured.

        :raises SpecError: the Airflow connection is unusable, so that a later look fails too.
        """
        extra = self._connections.kafka
        store = self.control_log.store

        def committed() -> list[Committed]:
            return read_sources(self.stream, self.control, state, heartbeats, store)

        if extra is None or self.kafka_conn_id is None or state.last_holder is None:
            return None
        try:
            return measure_sources(self.kafka_conn_id, extra, committed, moments)
        except SpecError:
            raise
        except StreamError as error:
            self.log.warning("The lag cannot be measured now: %s", error)
            return None

    def job(self, id: str) -> UnmanagedView | None:
        """Return what the cluster says of a job without a stream; None: it cannot end one.

        :raises ClusterError: the cluster does not answer, or has no such ids.
        """
        return self.cluster.unmanaged(id)

    def exists(self) -> bool:
        """Whether the stream was ever deployed.

        :raises ControlUnavailable: the control root is out of reach.
        """
        return self.root.exists(self.stream)

    # -- acting ----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Create the control log of a new stream; does nothing when it exists.

        :raises ControlUnavailable: the control root is out of reach, or cannot be used.
        """
        self.root.store(self.stream, create=True)

    def check_room(self, release: Release, deployment: str) -> None:
        """Raise ClusterError unless the cluster answers and has room for a deployment of this release."""
        self.cluster.check(self._job(release, deployment))

    def wish(
        self,
        step: Want,
        by: str,
        seq: int,
        requested: RequestedRelease | None = None,
        checked: Release | None = None,
    ) -> bool:
        """Append `wanted`, and publish the release before that, where the wish brings one in.

        How the stream is watched is noted before that, as the YAML of the release says it now.

        :param requested: the release that a wish which publishes is for, and the policy of its YAML.
        :param step: `skip` and `find` among its fields go into the policy. Without `skip` what the stream leaves out
            stays as it is.
        :param checked: what `releases.publish` has returned of it earlier, which is wished instead, whatever its files
            and its YAML say by now; default: it is published now.
        :return: False when the log no longer ends at `seq`.
        :raises SpecError: the release cannot be used, or this stream has never published it; nothing was written.
        :raises StreamError: what was published is not there any more; nothing was written.
        """
        fields = dict(step.fields)
        if step.publish:
            assert requested is not None, "the wish is for a release"
            release = self.releases.publish(requested) if checked is None else self._published(checked)
            policy = requested.spec.policy(requested.changed_checkpoints, no_way_back=requested.no_way_back)
            skip, find = fields.pop("skip", None), fields.pop("find", False)
            # A list that was wished meanwhile is not lost: nothing is appended then.
            kept = skipped(self.control_log.state) if skip is None else tuple(skip)
            policy = replace(policy, adopts=bool(fields.get("adopts")), skip=kept, find=bool(find))
            fields |= {"release": release.to_json(), "policy": policy.to_json()}
            self._note(requested.spec)
            if requested.spec.lag.max_seconds is not None:
                fields["max_seconds"] = requested.spec.lag.max_seconds
        return self.append(Kind.WANTED, by, seq, **fields)

    def _note(self, spec: StreamSpec) -> None:
        """Note how the stream is watched, as its YAML says it now."""
        known = self.root.noted(self.stream).get(self.stream)
        note = renewed(spec, known)
        if note != known:
            self.root.note(self.stream, note)

    def declare(self, step: Declare, by: str, seq: int) -> bool:
        """Declare a deployment; return False when the log no longer ends at `seq`.

        :raises ClusterError: the cluster has no room or does not answer; nothing was declared.
        """
        self.check_room(Release.from_json(step.fields["release"]), step.deployment)
        return self.append(Kind.DECLARED, by, seq, deployment=step.deployment, **step.fields)

    def _published(self, checked: Release) -> Release:
        """Return a release that was checked earlier, once its files are verified.

        It comes by XCom, which others may be allowed to write: its own hash and a storage of theirs would do otherwise.

        :raises SpecError: it is neither in the stream's own storage nor in its log.
        :raises StreamError: its files are not what was published, or cannot be read now.
        """
        known = (each.release for each in self.control_log.refresh().deployments.values())
        if not self.releases.own(checked) and checked not in known:
            raise SpecError(
                f"The release {checked.version} that was checked is in {checked.storage or 'the control folder'}, "
                f"where {self.stream} publishes none, and it was never deployed from there.",
                next_step="Trigger the upgrade again, as after a change of `storage`. If nobody has changed that, look "
                "who may write XCom.",
                hash=checked.hash,
            )
        self.releases.verify(checked)
        return checked

    def append(self, kind: str, by: str, seq: int, **fields: Any) -> bool:
        """Append a record if the log still ends at `seq`, and return whether it was written.

        :raises RuleBroken: it may not follow; nothing was written.
        :raises ControlUnavailable: not written or unknown.
        """
        try:
            self.control_log.append(make_record(kind, by, **fields), seq)
        except SeqTaken:
            return False
        # Here and not in the drivers, which must not be late. A log without a saved state is read again.
        with contextlib.suppress(ControlUnavailable):
            self.control_log.save()
        return True

    def submit(self, deployment: str, by: str, *, first: bool) -> bool:
        """Submit a declared deployment exactly once; see `submit_once` for `first`, the result and the errors."""
        release = self.control_log.refresh().deployments[deployment].release
        job = self._job(release, deployment)
        if not any(key.startswith("spark.openlineage.parent") for key in job.conf):
            job = replace(job, conf={**job.conf, **self.parent_job})
        return submit_once(
            self.control_log,
            self.cluster,
            job,
            by,
            first=first,
            verify=lambda: self.releases.verify(release),
            connection=self.cluster_conn_id,
        )

    def _job(self, release: Release, deployment: str) -> Job:
        where = address_of(release, self.stream, self.folder)
        log = self.control_log.store.origin()
        return job_of(self.root, self.stream, self.folder, deployment, release, where, log=log)

    def whose(self, deployment: str) -> Whose:
        """Return what tells the drivers of a deployment from any other on the cluster."""
        return Whose(deployment, self.control_log.store.origin(), way_to_log(self.root))

    def kill(self, deployment: str) -> None:
        """Kill what the cluster runs of a deployment. It counts as dead only when `observe` says that it is gone.

        :raises ClusterError: the cluster does not answer.
        """
        kill_drivers(self.control_log, self.cluster, self.whose(deployment))

    def refuse(self, refusal: Refusal) -> bool:
        """Have the ledger of the stream's sinks refuse what a driver writes; return whether it does.

        Where it cannot be asked, that is logged, and the driver waited for.
        """
        store = self.control_log.store

        def ask() -> str:
            return refuse_writer(refusal, self.stream, store.origin())

        try:
            problem = call(ask, REFUSE_SECONDS, f"The database of the connection {refusal.ledger!r}")
        except StreamError as error:
            problem = str(error)
        if problem:
            self.log.warning(
                "%s is waited for, since its sinks may still take what it writes. %s", refusal.incarnation, problem
            )
        return not problem

    def end_job(self, id: str) -> bool:
        """Have the cluster end a job without a stream; return whether it is confirmed gone within `END_SECONDS`.

        :raises ClusterError: the cluster does not answer, or refuses.
        """
        if self.cluster.unmanaged(id) is None:
            return False
        self.cluster.kill(id)
        deadline = time.monotonic() + END_SECONDS
        while (found := self.cluster.unmanaged(id)) is not None and not found.gone and time.monotonic() < deadline:
            time.sleep(0.3)
        return found is not None and found.gone

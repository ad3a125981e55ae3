"""Read one stream's folder, one cluster and one Kafka for a look; each may hang, so each has a thread."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.clusters import ClusterConnection, DriverView, import_client, open_cluster
from airflow_stream_provider.control.bounded import call, start
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.hooks.stream_releases import clean_up
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.reader import measure_apart
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.targets import read_sources
from airflow_stream_provider.lag.topic_ids import note as note_topics
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, StreamError
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.due import needs
from airflow_stream_provider.planning.retire import settled
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.client import KafkaClient

logger = logging.getLogger(__name__)


def clean_up_stream(hook: StreamHook) -> None:
    """Clean up the stream, also on its cluster; a failure is logged, and tried later."""
    try:
        log = hook.control_log
        gone = clean_up(log.store, log.refresh, hook.releases.places())
    except StreamError as error:
        logger.warning("What %s has stored cannot be cleaned up now: %s", hook.stream, error)
    else:
        logger.info("Not needed any more: %d heartbeats, releases %s.", len(gone.heartbeats), [*gone.releases])
    try:
        over = settled(hook.control_log.refresh())
        if over:
            hook.cluster.forget([hook.whose(each) for each in over])
    except StreamError as error:
        logger.warning("What the cluster keeps of %s cannot be cleaned up now: %s", hook.stream, error)


CLEAN_UP_SECONDS = 3600.0


@dataclass(frozen=True)
class Reading:
    """One stream as a look found it.

    :param before: the sample of the look before; None: there was none.
    """

    spec: StreamSpec
    hook: StreamHook
    snapshot: Snapshot
    before: LagSample | None

    @property
    def deployment(self) -> str:
        """The deployment that holds the stream, or held it last; empty when none did."""
        found = self.snapshot.state.last_driver
        return found.deployment if found else ""

    @property
    def submissions(self) -> dict[str, str]:
        """The cluster's ids of the drivers that matter, by deployment: the holder, what comes up or is to go."""
        state = self.snapshot.state
        wanted = {self.deployment, *needs(self.snapshot).drivers}
        found = {name: self.snapshot.submission(name) for name in wanted if name in state.deployments}
        return {name: submission for name, submission in found.items() if submission}

    def clean_up_is_due(self, now: float) -> bool:
        """Whether the stream's hour has come round since the last look: each stream has its own moment in it."""
        offset = zlib.crc32(self.spec.name.encode()) % CLEAN_UP_SECONDS
        return (
            self.before is not None
            and (now - offset) // CLEAN_UP_SECONDS != (self.before.at - offset) // CLEAN_UP_SECONDS
        )


def read_stream(spec: StreamSpec, root: ControlRoot, noted: Container[str]) -> Reading | None:
    """Read the log, the heartbeats and the last sample; None for a stream that was never deployed.

    :param root: its control root.
    :param noted: the streams that were deployed there.
    :raises StreamError: the stream cannot be read now, or its log has gone.
    """
    hook = StreamHook.of(spec)
    if not hook.exists():
        if spec.name in noted:
            raise _gone(spec.name, root.where(spec.name))
        return None
    snapshot = hook.observe(history=False)
    return Reading(spec, hook, snapshot, samples.last(hook.samples))


def read_committed(reading: Reading) -> Sequence[Committed]:
    """Read how far the stream's queries are, from their checkpoints or the heartbeat."""
    spec, found = reading.spec, reading.snapshot
    store = reading.hook.control_log.store
    return read_sources(spec.name, spec.control, found.state, found.heartbeats, store)


def beats_again(reading: Reading, incarnations: Sequence[str]) -> dict[str, bool]:
    """Read heartbeats once more; return by incarnation whether its counter has grown since."""
    counters = {name: reading.hook.control_log.heartbeat(name) for name in incarnations}
    return {name: beat is not None and beat.counter > reading.snapshot.counter(name) for name, beat in counters.items()}


def keep(reading: Reading, sample: LagSample, report: LagReport | None, committed: Sequence[Committed]) -> None:
    """Add the sample to those of the stream, and note the ids of topics that are new or accepted.

    :raises StreamError: the sample may not have been written.
    """
    samples.append(reading.hook.samples, sample)
    noted: Mapping[str, Mapping[str, str]] = {each.id: each.noted for each in committed}
    queries = [] if report is None else [query for query in report.queries if query.id and query.topic_ids]
    accepted = {each.id: each.accepted for each in committed if each.accepted}
    new = any(query.id in accepted or query.topic_ids.keys() - noted.get(query.id, {}).keys() for query in queries)
    if report is not None and new:
        note_topics(reading.hook.control_log.store, replace(report, queries=tuple(queries)), accepted)


def clean_up_in_turn(reading: Reading) -> None:
    """Remove files that are not needed any more from the stream's folder; a failure is logged, and tried an hour later.

    :raises StreamError: the samples cannot be shortened now.
    """
    clean_up_stream(reading.hook)
    reading.hook.samples.shorten()


class LogGone(ControlUnavailable):
    """The control log of a stream that was deployed is not there any more."""


def _gone(stream: str, where: str) -> LogGone:
    return LogGone(
        f"The control log of {stream} has gone: it was in {where}.",
        next_step="Mount or restore it; its drivers wait for it for some minutes. If the stream is to begin anew: "
        "see that no driver of it is left on the cluster, then deploy it. If it is not wanted any more: remove its "
        "YAML.",
        where=where,
    )


T = TypeVar("T")

# Seconds for a connection to Kafka, and for a measurement of all streams; for what a cluster is asked.
CONNECT_SECONDS = 12.0
MEASURE_SECONDS = 12.0
ASK_SECONDS = 11.0


class _Place:
    """A place that many streams need, during one look.

    :param what: it is, for people.
    :param conn_id: Airflow connection.
    :param connection: what that says, or why it cannot be read.
    """

    def __init__(self, what: str, conn_id: str, connection: object) -> None:
        self.conn_id = conn_id
        # Why it says nothing; empty: it answers.
        self.problem = str(connection) if isinstance(connection, StreamError) else ""
        self._what = f"The {what} of the connection {conn_id!r}"

    def _in_time(self, ask: Callable[[], T], seconds: float, hint: str = "") -> T | None:
        """Return the answer; None, and the problem is known, when there is none."""
        if not self.problem:
            try:
                return call(ask, seconds, self._what, hint)
            except StreamError as error:
                self.problem = str(error)
            except Exception as error:  # noqa: BLE001 - such as of a client library; its text may hold secrets
                self.problem = f"{self._what} cannot be asked: {type(error).__name__}."
        return None


class KafkaLook(_Place):
    """One Kafka during one look.

    :param conn_id: Airflow connection of type `kafka`.
    :param extra: its extra, or why it cannot be read.
    """

    _HINT = "Check that the brokers run, and that this machine reaches their advertised listeners."

    def __init__(self, conn_id: str, extra: Mapping[str, Any] | StreamError) -> None:
        super().__init__("Kafka", conn_id, extra)
        self.reports: Mapping[str, LagReport | StreamError] = {}
        self._extra: Any = extra
        self._client: KafkaClient | None = None

    def connect(self) -> None:
        """Connect, or find out why that is not possible; returns in time."""
        from airflow_stream_provider.kafka.client import KafkaClient

        self._client = self._in_time(lambda: KafkaClient(self.conn_id, self._extra), CONNECT_SECONDS, self._HINT)

    def measure(self, committed: Mapping[str, Sequence[Committed]], moments: Mapping[str, Moments]) -> None:
        """Measure these streams together; returns in time.

        :param committed: how far the queries of each stream are.
        :param moments: by stream, what its report must say exactly.
        """
        client = self._client
        if client is not None:
            measure = partial(measure_apart, client, committed, moments, str)
            self.reports = self._in_time(measure, MEASURE_SECONDS, self._HINT) or {}
            # Not waited for: what hangs ends with the process.
            start(client.close, f"close {self.conn_id}")


class ClusterLook(_Place):
    """One cluster during one look.

    :param conn_id: Airflow connection of the cluster.
    :param connection: its fields, or why it cannot be read.
    """

    def __init__(self, conn_id: str, connection: ClusterConnection | StreamError) -> None:
        super().__init__("cluster", conn_id, connection)
        self.drivers: Mapping[str, DriverView] = {}
        self._connection: Any = connection
        if not isinstance(connection, StreamError):
            import_client(connection)  # not in the time for asking

    def ask(self, submissions: Collection[str]) -> None:
        """Ask about these drivers; returns in time."""
        self.drivers = self._in_time(lambda: open_cluster(self._connection).look(submissions), ASK_SECONDS) or {}

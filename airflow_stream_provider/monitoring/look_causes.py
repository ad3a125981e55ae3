"""The places that many streams need, as one look finds them: followed from look to look, with what they explain."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from airflow_stream_provider.monitoring.causes import Cause, explained, may_end, queries_failed
from airflow_stream_provider.monitoring.folder_memory import FolderMemory, Subject
from airflow_stream_provider.monitoring.folder_reading import FolderReading
from airflow_stream_provider.monitoring.incidents import IncidentKind
from airflow_stream_provider.monitoring.stream_reading import Reading
from airflow_stream_provider.planning.query_health import judge_queries
from airflow_stream_provider.spec.stream import StreamSpec

log = logging.getLogger(__name__)


class LookCauses:
    """The causes of one look: `found`, by kind and name.

    :param reading: what the look finds out.
    :param memory: of the looks before; it learns what this one says of each cause.
    :param folder: the watched streams of the folder, also those that are not looked at now, by name.
    :param now: time of the look, seconds since 1970.
    """

    def __init__(
        self, reading: FolderReading, memory: FolderMemory, folder: Mapping[str, StreamSpec], now: float
    ) -> None:
        self.found: dict[Subject, Cause] = {}
        self._reading = reading
        self._memory = memory
        self._folder = folder
        self._now = now

    def judge(self, down: Collection[str]) -> None:
        """Follow Kafkas, clusters and checkpoints.

        :param down: streams that have no driver, and no incident of their own for that.
        """
        for conn_id, kafka in self._reading.kafkas.items():
            streams = [name for name, spec in self._folder.items() if spec.kafka == conn_id]
            self._follow(IncidentKind.KAFKA, conn_id, streams, kafka.problem, down)
        clusters = {name: spec.cluster for name, spec in self._folder.items()}
        clusters |= {name: stream.cluster for name, stream in self._reading.streams.items()}
        for conn_id, cluster in self._reading.clusters.items():
            streams = [name for name, used in clusters.items() if used == conn_id]
            self._follow(IncidentKind.CLUSTER, conn_id, streams, cluster.problem, down)
        for url, root in self._reading.roots.items():
            if root.checkpoint_problem is not None:
                streams = [name for name, spec in self._folder.items() if spec.control == url and spec.kafka]
                self._follow(IncidentKind.CHECKPOINTS, url, streams, root.checkpoint_problem)

    def judge_roots(self) -> None:
        """Follow the control roots, once it is known whether they can be written."""
        for url, root in self._reading.roots.items():
            if root.unclear and not root.problem:
                continue  # a look that says nothing of the root ends no incident of it
            streams = [name for name, spec in self._folder.items() if spec.control == url]
            self._follow(IncidentKind.CONTROL, url, streams, root.problem)

    def explained(self, stream: Reading) -> frozenset[IncidentKind]:
        """Return the kinds of incidents that something explains which the stream needs."""
        spec, cluster = stream.spec, self._reading.cluster_of(stream)
        needs = [(IncidentKind.CONTROL, spec.control, self._reading.roots[spec.control].problem)]
        if spec.kafka:
            needs.append((IncidentKind.KAFKA, spec.kafka, self._reading.kafkas[spec.kafka].problem))
            checkpoints = self._reading.roots[spec.control].checkpoint_problem
            needs.append((IncidentKind.CHECKPOINTS, spec.control, checkpoints or ""))
        if cluster is not None:
            needs.append((IncidentKind.CLUSTER, cluster.conn_id, cluster.problem))
        failed = queries_failed(stream.snapshot.state)
        ill = judge_queries(stream.snapshot).ill
        every = (
            explained(kind, self._memory.bad_at((kind, name)), problem, self._now, failed=failed, ill=ill)
            for kind, name, problem in needs
        )
        unread = {IncidentKind.LAG_UNKNOWN} if self._reading.awaits_lag(spec.name) else ()
        return frozenset(unread).union(*every)

    def _follow(
        self, kind: IncidentKind, name: str, streams: Sequence[str], problem: str, down: Collection[str] = ()
    ) -> None:
        subject = (kind, name)
        known = self._memory.down(subject)
        # A stream that is not looked at now stays as it was.
        for_it = [each for each in streams if self._may_be_down_for(kind, each, down, known)] if problem else []
        cause = Cause(kind, name, streams, problem, for_it, known)
        self._memory.judge(subject, cause.symptom, self._now, for_it)
        self.found[subject] = cause
        if problem:
            log.warning("%s: %s", cause.subject, problem)

    def _may_be_down_for(self, kind: IncidentKind, name: str, down: Collection[str], known: Collection[str]) -> bool:
        stream = self._reading.streams.get(name)
        if stream is None:
            return name in known
        return name in down and may_end(kind, failed=queries_failed(stream.snapshot.state))

"""Read all streams of a folder in one look, each place in threads of its own and with deadlines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_stream_provider.clusters import DriverView
from airflow_stream_provider.control.bounded import NotReached, gather
from airflow_stream_provider.hooks.connections import cluster_connection, kafka_extra
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.errors import says
from airflow_stream_provider.monitoring import liveness
from airflow_stream_provider.monitoring.cluster_look import ClusterLook
from airflow_stream_provider.monitoring.kafka_look import KafkaLook
from airflow_stream_provider.monitoring.root_reads import RootReads, tried
from airflow_stream_provider.monitoring.stream_reading import Reading, beats_again, read_committed
from airflow_stream_provider.spec.stream import StreamSpec

log = logging.getLogger(__name__)

# Seconds for each stage; whatever is asked there has a shorter deadline of its own.
STAGE_SECONDS = 40.0
_NO_TIME = NotReached("There was no time left to read it.")


class FolderReading:
    """The streams of a folder as one look finds them; Airflow's connections are read in the calling thread, each once.

    :param specs: the streams, by name, those first that must not be left out again.
    :param ahead: seconds by which the look's clock is ahead of this machine's.
    """

    def __init__(self, specs: Mapping[str, StreamSpec], ahead: float) -> None:
        self.specs = specs
        self._ahead = ahead
        kafkas = sorted({spec.kafka for spec in specs.values() if spec.kafka})
        self.kafkas = {each: KafkaLook(each, _tried(kafka_extra, each)) for each in kafkas}
        by_root: dict[str, list[StreamSpec]] = {}
        for spec in specs.values():
            by_root.setdefault(spec.control, []).append(spec)
        self.roots = {url: RootReads(url, mine) for url, mine in by_root.items()}
        self.clusters: dict[str, ClusterLook] = {}
        # The readings of the streams that can be read, and why the others cannot.
        self.streams: dict[str, Reading] = {}
        self.failed: dict[str, str] = {}
        # Those for which a stage had no time: neither well nor failed, and the first ones of the next look.
        self.not_reached: set[str] = set()
        # By stream: how far its queries are, and whether heartbeats have grown in the course of the look.
        self.committed: dict[str, Sequence[Committed] | Exception] = {}
        self.beaten: dict[str, Mapping[str, bool]] = {}

    @property
    def never_deployed(self) -> list[str]:
        """The streams that were never deployed."""
        return sorted(self.specs.keys() - self.streams.keys() - self.failed.keys() - self.not_reached)

    def read(self) -> None:
        """Read control logs, heartbeats and last samples, while the Kafkas are connected to."""
        side_by_side([*(each.connect for each in self.kafkas.values()), *(each.read for each in self.roots.values())])
        found = {name: each for root in self.roots.values() for name, each in dict(root.found).items()}
        for name in self.specs:
            each = found.get(name, _NO_TIME)
            if isinstance(each, Reading):
                self.streams[name] = replace(each, snapshot=replace(each.snapshot, at=each.snapshot.at + self._ahead))
            elif isinstance(each, NotReached):
                self.not_reached.add(name)
            elif each is not None:
                self.failed[name] = says(each)
        # Only now, as the log alone tells the cluster of a stream whose YAML does not.
        clusters = sorted({each.cluster for each in self.streams.values()} - {""})
        self.clusters = {each: ClusterLook(each, _tried(cluster_connection, each)) for each in clusters}

    def measure(self) -> None:
        """Read how far the queries are, then ask the Kafkas and the clusters, and read doubtful heartbeats again."""
        self.in_roots(self._read_committed)
        self.not_reached.update(name for name in self.streams if self.awaits_lag(name))
        side_by_side(
            [
                *(partial(self._measure, kafka) for kafka in self.kafkas.values()),
                *(partial(self._ask, cluster) for cluster in self.clusters.values()),
                *(partial(self._look_again, root) for root in self.roots.values()),
            ]
        )

    def awaits_lag(self, name: str) -> bool:
        """Whether there was no time to read how far a stream's queries are."""
        return bool(self.specs[name].kafka) and isinstance(self.committed.get(name, _NO_TIME), NotReached)

    def in_roots(self, call: Callable[[RootReads], None]) -> None:
        """Call this with each control root, side by side."""
        side_by_side(partial(call, root) for root in self.roots.values())

    def of_root(self, root: RootReads, names: Iterable[str] | None = None) -> dict[str, Reading]:
        """Return the streams of a control root that could be read; `names`: only these, default all."""
        wanted = self.streams.keys() if names is None else self.streams.keys() & set(names)
        return {spec.name: self.streams[spec.name] for spec in root.specs if spec.name in wanted}

    def lag(self, name: str) -> LagLook | None:
        """Return what the look found of a stream's lag; None when the stream names no Kafka."""
        spec, at = self.specs[name], self.streams[name].snapshot.at
        if not spec.kafka:
            return None
        kafka = self.kafkas[spec.kafka]
        if kafka.problem:
            return LagLook(at, None, kafka.problem)
        offsets = self.committed.get(name, _NO_TIME)
        found = offsets if isinstance(offsets, Exception) else kafka.reports.get(name, TimeoutError())
        if isinstance(found, LagReport):
            return LagLook.of(replace(found, at=found.at + self._ahead))
        return LagLook(at, None, says(found))

    def cluster_of(self, reading: Reading) -> ClusterLook | None:
        """Return the cluster of a stream; None where neither its YAML nor its log names one."""
        return self.clusters.get(reading.cluster)

    def views(self, reading: Reading) -> dict[str, DriverView]:
        """Return what the cluster says of a stream's drivers, by deployment."""
        cluster = self.cluster_of(reading)
        known = cluster.drivers if cluster else {}
        return {name: known[each] for name, each in reading.submissions.items() if each in known}

    def links(self, reading: Reading) -> dict[str, str]:
        """Return addresses of the driver that holds a stream, or held it last, as far as the look knows them."""
        view = self.views(reading).get(reading.deployment)
        beat = reading.snapshot.heartbeats.get(reading.snapshot.state.last_holder or "")
        ui = {"Spark UI": beat.ui_url} if beat and beat.ui_url else {}
        return {**(view.links if view else {}), **ui}

    # -- in threads --------------------------------------------------------------------------------------------------

    def _read_committed(self, root: RootReads) -> None:
        mine = self.of_root(root, (name for name, spec in self.specs.items() if spec.kafka))
        self.committed.update(root.checkpoints({name: partial(read_committed, each) for name, each in mine.items()}))

    def _measure(self, kafka: KafkaLook) -> None:
        offsets = {
            name: each
            for name, each in dict(self.committed).items()
            if self.specs[name].kafka == kafka.conn_id and not isinstance(each, Exception)
        }
        kafka.measure(offsets, {name: self.specs[name].lag.limits.moments for name in offsets})

    def _ask(self, cluster: ClusterLook) -> None:
        mine = (each for each in self.streams.values() if each.cluster == cluster.conn_id)
        cluster.ask({submission for each in mine for submission in each.submissions.values()})

    def _look_again(self, root: RootReads) -> None:
        doubtful = {name: liveness.doubtful(each.snapshot) for name, each in self.of_root(root).items()}
        asked = {name: partial(beats_again, self.streams[name], who) for name, who in doubtful.items() if who}
        if asked:
            time.sleep(liveness.AGAIN_SECONDS)
            answers = root.each(asked)
            self.beaten.update({name: each for name, each in answers.items() if not isinstance(each, Exception)})
            self.not_reached.update(name for name, each in answers.items() if isinstance(each, NotReached))


def side_by_side(calls: Iterable[Callable[[], None]]) -> None:
    """Call these in threads, and leave behind what hangs."""
    each = dict(enumerate(calls))
    for error in gather(each, STAGE_SECONDS, width=len(each)).values():
        if isinstance(error, Exception):
            log.error("A part of this look failed: %s", says(error), exc_info=error)


def _tried(read: Callable[[str], Any], conn_id: str) -> Any:
    """Return a connection, or the error that it cannot be read."""
    return tried(f"The Airflow connection {conn_id!r} cannot be read", lambda: read(conn_id))

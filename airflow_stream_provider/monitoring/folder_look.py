"""Look at all streams of a folder at once: read, measure, judge, keep, tell; nothing that hangs delays the rest."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.monitoring import liveness
from airflow_stream_provider.monitoring.causes import FAILING_SECONDS, Cause, explained
from airflow_stream_provider.monitoring.folder_alerts import FolderAlerts, Told, recipients_of, recipients_of_all
from airflow_stream_provider.monitoring.folder_memory import FolderMemory, Subject
from airflow_stream_provider.monitoring.folder_reading import FolderReading, says
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom
from airflow_stream_provider.monitoring.metrics import emit
from airflow_stream_provider.monitoring.root_reads import RootReads
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.monitoring.stream_reading import Reading, clean_up, keep
from airflow_stream_provider.monitoring.watch_look import found_symptoms, sample_of
from airflow_stream_provider.planning.revival import revival_is_due
from airflow_stream_provider.spec.watched import Watched

log = logging.getLogger(__name__)

# Entries of a list in the summary.
SHOWN = 50


@dataclass(frozen=True)
class FolderLook:
    """What one look at a folder found.

    :param memory: JSON, to be handed to the next look: incidents of what many streams need, and who was told.
    :param revive: names of streams for which a run of NAME__revive is needed now.
    :param summary: JSON for XCom and the log: `looked`, `seconds`, `unanswered` (reason by stream), `incidents` (ids of
        the open ones), `never_deployed`.
    """

    memory: Mapping[str, Any]
    revive: tuple[str, ...]
    summary: Mapping[str, Any]


def look_at_all(
    watched: Sequence[Watched],
    memory: Mapping[str, Any],
    context: Mapping[str, Any],
    *,
    clock: Callable[[], float] = time.time,
) -> FolderLook:
    """Look once at these streams, keep a sample of each, and tell people of incidents.

    What befalls one stream, one Kafka, one cluster, one control root or one recipient befalls no other: each is read in
    threads of its own, with deadlines, and the whole look ends within a minute though several hang. Airflow's
    connections are read in the calling thread, each once.

    :param memory: what the last look has left, or anything.
    :param context: of the task, for the templates of notifiers.
    :param clock: seconds since 1970.
    """
    return _Look(watched, memory, context, clock()).go()


class _Look:
    def __init__(self, watched: Sequence[Watched], memory: Any, context: Mapping[str, Any], now: float) -> None:
        self.began = time.monotonic()
        self.now = now
        self.context = context
        self.memory = FolderMemory.from_json(memory)
        self.watched = {each.spec.name: each for each in watched}
        self.reading = FolderReading({name: each.spec for name, each in self.watched.items()}, now - time.time())
        self.causes: dict[Subject, Cause] = {}
        self.lags: dict[str, LagLook | None] = {}
        self.samples: dict[str, LagSample] = {}

    def go(self) -> FolderLook:
        """Carry out the stages one after the other."""
        self.reading.read()
        self.reading.measure()
        self._judge()
        revive = []
        for name in self.samples:
            with self._of(name):
                revive += [name] if self._is_due(self.reading.streams[name]) else []
        self._keep()
        self._tell()
        self.reading.in_roots(self._clean_up)
        return FolderLook(self.memory.to_json(self.now), tuple(revive), self._summary())

    def _judge(self) -> None:
        """Make a sample of each stream, and follow the incidents of what many of them need."""
        found: dict[str, dict[IncidentKind, Symptom]] = {}
        for name, stream in self.reading.streams.items():
            with self._of(name):
                self.lags[name] = lag = self.reading.lag(name)
                if lag is not None and lag.report is not None:
                    emit(name, lag.report)
                limits, for_at_least = stream.spec.lag.limits, stream.spec.watch.for_at_least
                found[name] = found_symptoms(stream.snapshot, lag, stream.before, limits, for_at_least)
        down = {name for name, each in found.items() if each[IncidentKind.DOWN].health is Health.FAIL}
        for conn_id, kafka in self.reading.kafkas.items():
            streams = [name for name, each in self.watched.items() if each.spec.kafka == conn_id]
            self._follow(Cause(IncidentKind.KAFKA, conn_id, streams, kafka.problem, _in(streams, down)))
        for conn_id, cluster in self.reading.clusters.items():
            streams = [name for name, stream in self.reading.streams.items() if stream.cluster == conn_id]
            self._follow(Cause(IncidentKind.CLUSTER, conn_id, streams, cluster.problem, _in(streams, down)))
        for name, symptoms in found.items():
            with self._of(name):
                stream = self.reading.streams[name]
                limits, why = stream.spec.lag.limits, self._explained(stream)
                sample = sample_of(stream.snapshot, self.lags[name], stream.before, limits, symptoms, why)
                self.samples[name] = sample

    def _follow(self, cause: Cause) -> None:
        self.memory.judge((cause.kind, cause.name), cause.symptom, self.now)
        self.causes[cause.kind, cause.name] = cause
        if cause.problem:
            log.warning("%s: %s", cause.subject, cause.problem)

    def _explained(self, stream: Reading) -> frozenset[IncidentKind]:
        """Return the kinds of incidents that something explains which the stream needs."""
        spec, cluster = stream.spec, self.reading.cluster_of(stream)
        needs = [(IncidentKind.CONTROL, spec.control, self.reading.roots[spec.control].problem)]
        if spec.kafka:
            needs.append((IncidentKind.KAFKA, spec.kafka, self.reading.kafkas[spec.kafka].problem))
        if cluster is not None:
            needs.append((IncidentKind.CLUSTER, cluster.conn_id, cluster.problem))
        every = (explained(kind, self.memory.bad_at((kind, name)), problem, self.now) for kind, name, problem in needs)
        return frozenset[IncidentKind]().union(*every)

    def _is_due(self, stream: Reading) -> bool:
        """Whether somebody has to bring the stream back now."""
        drivers = {name: view.state for name, view in self.reading.views(stream).items()}
        beaten = self.reading.beaten.get(stream.spec.name, {})
        cluster = self.reading.cluster_of(stream)
        answers = cluster is not None and not cluster.problem
        alive = liveness.alive(stream.snapshot, stream.before, beaten, drivers)
        return revival_is_due(stream.snapshot, alive, cluster_answers=answers)

    def _keep(self) -> None:
        """Write the samples; then it is known which streams cannot be watched."""
        self.reading.in_roots(self._write)
        for url, root in self.reading.roots.items():
            self._follow(Cause(IncidentKind.CONTROL, url, [spec.name for spec in root.specs], root.problem))
        for name, each in self.watched.items():
            failed, subject = self.reading.failed.get(name), (IncidentKind.WATCH, name)
            if failed and self.reading.roots[each.spec.control].problem:
                continue  # people are told of the root
            problem = failed or (f"Its YAML cannot be used. {each.problem}" if each.problem else "")
            if problem:
                says_so = f"The watch cannot look at it as it should. {problem}"
                self.memory.judge(subject, Symptom(Health.FAIL, says_so, FAILING_SECONDS), self.now)
            elif subject in self.memory.subjects:
                self.memory.judge(subject, Symptom(Health.PASS), self.now)

    def _write(self, root: RootReads) -> None:
        mine = self.reading.of_root(root, self.samples)
        answers = root.each({name: partial(self._write_one, each) for name, each in mine.items()})
        errors = {name: each for name, each in answers.items() if isinstance(each, Exception)}
        self.reading.failed.update({name: says(each) for name, each in errors.items()})
        root.judge_writes(errors)

    def _write_one(self, stream: Reading) -> None:
        name = stream.spec.name
        lag, offsets = self.lags[name], self.reading.committed.get(name, ())
        keep(stream, self.samples[name], lag.report if lag else None, () if isinstance(offsets, Exception) else offsets)

    def _tell(self) -> None:
        """Send what is due, and keep who was told."""
        mine = [subject for subject in self.memory.subjects if subject in self.causes or self._is_stream(subject)]
        shared = {subject: self._told(subject) for subject in mine}
        kept = {name: sample for name, sample in self.samples.items() if name not in self.reading.failed}
        FolderAlerts(self.reading, self.lags, kept, self.context).send(shared.values())
        for subject, told in shared.items():
            self.memory.told(subject, told.incidents[subject[0]])

    def _is_stream(self, subject: Subject) -> bool:
        return subject[0] is IncidentKind.WATCH and subject[1] in self.watched

    def _told(self, subject: Subject) -> Told:
        kind, name = subject
        state, cause = self.memory.subjects[subject].state, self.causes.get(subject)
        if cause is None:
            return Told(name, {kind: state}, self.now, recipients_of(self.watched[name].spec))
        whom = recipients_of_all(self.watched[each].spec for each in cause.streams)
        return Told(cause.subject, {kind: state}, self.now, whom)

    def _clean_up(self, root: RootReads) -> None:
        due = {name: each for name, each in self.reading.of_root(root).items() if each.clean_up_is_due(self.now)}
        for name, error in root.each({name: partial(clean_up, each) for name, each in due.items()}).items():
            if isinstance(error, Exception):
                log.warning("The folder of %s cannot be cleaned up now: %s", name, says(error))

    def _summary(self) -> dict[str, Any]:
        theirs = (id for sample in self.samples.values() for id in sample.open_incidents.values())
        failed = sorted(self.reading.failed.items())
        return {
            "looked": len(self.samples),
            "seconds": round(time.monotonic() - self.began, 2),
            "unanswered": dict(failed[:SHOWN]) | ({"…": f"{len(failed) - SHOWN} more"} if failed[SHOWN:] else {}),
            "incidents": [*self.memory.open_incidents().values(), *theirs][:SHOWN],
            "never_deployed": self.reading.never_deployed[:SHOWN],
        }

    @contextlib.contextmanager
    def _of(self, name: str) -> Iterator[None]:
        """Let what goes wrong with one stream be that stream's."""
        try:
            yield
        except Exception as error:
            log.exception("%s cannot be judged.", name)
            self.reading.failed[name] = says(error)


def _in(streams: Iterable[str], chosen: Collection[str]) -> list[str]:
    return [name for name in streams if name in chosen]

"""Look at all streams of a folder at once: read, measure, judge, keep, tell; nothing that hangs delays the rest."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from airflow_stream_provider.control.bounded import NotReached
from airflow_stream_provider.hooks.compare import unasked_release
from airflow_stream_provider.lag.limits import Health, LagLook
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.errors import says
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.monitoring import health
from airflow_stream_provider.monitoring.alert import Alert, lag_alert
from airflow_stream_provider.monitoring.causes import FAILING_SECONDS, LookCauses, Subject, named
from airflow_stream_provider.monitoring.delivery import Told, tell
from airflow_stream_provider.monitoring.folder_reading import FolderReading
from airflow_stream_provider.monitoring.health import TRANSIENT_SECONDS, found_symptoms, sample_of
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind, Symptom
from airflow_stream_provider.monitoring.metrics import emit, emit_look
from airflow_stream_provider.monitoring.readings import Reading, keep
from airflow_stream_provider.monitoring.readings import clean_up_in_turn as clean_up
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.monitoring.samples import LagSample, append, read
from airflow_stream_provider.monitoring.trends import Refresh, TrendLook, looked_at
from airflow_stream_provider.monitoring.watching import Watching
from airflow_stream_provider.planning.due import due_without_cluster, is_due
from airflow_stream_provider.planning.reconcile import reconcile
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.steps import GiveUp, TaskIdentity
from airflow_stream_provider.planning.stream_health import judge_lag
from airflow_stream_provider.spec.folder import StreamFile
from airflow_stream_provider.spec.stream import StreamSpec

log = logging.getLogger(__name__)

# Entries of a list in the summary.
SHOWN = 50


@dataclass(frozen=True)
class Found:
    """The result of one look at a folder.

    :param revive: the streams for which a run of FOLDER__revive is needed now, by name.
    :param summary: JSON for XCom and the log: `looked`, `seconds`, `unanswered` (reason by stream), `incidents` (ids of
        the open ones), `never_deployed`, `not_reached` (streams for which there was no time, in full or in part; the
        next look begins with them).
    :param problem: why the look does not do what it is for, in sentences; empty: it does.
    :param beside: those of `revive` that need such a run though one is under way, which may wait for something else.
    :param changed: by stream the name of the wish for which an upgrade is due (`upgrade.on_change`).
    :param refresh: by stream the fresh driver that is due (`upgrade.refresh`).
    """

    revive: Mapping[str, StreamSpec]
    summary: Mapping[str, Any]
    problem: str = ""
    beside: frozenset[str] = frozenset()
    changed: Mapping[str, str] = field(default_factory=dict)
    refresh: Mapping[str, Refresh] = field(default_factory=dict)


class FolderLook:
    """One look at all streams that a watch looks after.

    It keeps a sample of each, and tells people of incidents. A failing stream, Kafka, cluster, control root or
    recipient does not harm the others: each is read in threads of its own, with deadlines, and the whole look ends
    within 75 s though several hang. Airflow's connections are read in the calling thread, each once.

    :param watch: id of the DAG.
    :param files: the YAML files of the folder.
    :param roots: the control roots that are known besides those that the files name.
    :param left: the memory of the looks before, where no control root could keep it.
    :param context: of the task, for the templates of notifiers.
    :param save: keeps the memory where no control root does.
    :param unread: why the folder of the files cannot be read; empty: it can.
    :param everything: whether all streams are looked at, and not only those that are due.
    :param clock: seconds since 1970.
    """

    def __init__(
        self,
        watch: str,
        files: Sequence[StreamFile],
        roots: Collection[str],
        left: Any,
        context: Mapping[str, Any],
        save: Callable[[Any], None],
        *,
        unread: str = "",
        everything: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.began = time.monotonic()
        self.now = clock()
        self.context = context
        self.everything = everything
        self.watching = Watching(watch, files, roots, left, save, unread=unread, now=self.now)
        self.memory, self.folder = self.watching.memory, self.watching.folder
        due = self.watching.due(everything=everything)
        self.watched = {name: self.folder[name] for name in self.memory.first(due)}
        self.reading = FolderReading(self.watched, self.watching.roots, self.now - time.time())
        self.causes = LookCauses(self.reading, self.memory, self.folder, self.now)
        self.lags: dict[str, LagLook | None] = {}
        self.samples: dict[str, LagSample] = {}
        self.traced: dict[str, TrendLook] = {}
        self.refresh: dict[str, Refresh] = {}
        self.revive: dict[str, StreamSpec] = {}
        self.beside: list[str] = []

    def go(self) -> Found:
        """Carry out the stages one after the other."""
        self.watching.declare()
        self.reading.read()
        self.reading.measure()
        self._judge()
        self._keep()
        self.watching.declare(self.reading.streams)
        self.watching.give_up(self.reading)
        self.watching.judge_files()
        self.memory.reached(self.watched, self.reading.not_reached, self.now)
        self._tell()
        if not self.everything:  # and not before: the next look makes up for one that fails
            self.memory.looked = self.now
        # At once: people have been told by now, and would be told again if this process ended before.
        self.watching.keep()
        self._clean_up()
        changed = self._compare()
        self.memory.runs = {name: runs for name, runs in self.memory.runs.items() if name in self.revive}
        problem = self._problem()
        self.tell_of_watch(problem)
        return Found(self.revive, self._summary(), problem, frozenset(self.beside), changed, self.refresh)

    # -- the stages --------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Make a sample of each stream, and follow the incidents of what many of them need."""
        found: dict[str, dict[IncidentKind, Symptom]] = {}
        stuck: set[str] = set()
        for name, stream in self.reading.streams.items():
            with self._of(name):
                self.lags[name] = lag = self.reading.lag(name)
                if lag is not None and lag.report is not None:
                    emit(name, lag.report)
                limits, for_at_least = stream.spec.lag.limits, stream.spec.watch.for_at_least
                judged = judge_lag(stream.snapshot, lag.report, limits, lag.problem) if lag else None
                symptoms = found_symptoms(stream.snapshot, judged, stream.before, for_at_least)
                scene = Scene(stream.snapshot, TaskIdentity(self.watching.watch, "", ""), lives=self._alive(stream))
                symptoms[IncidentKind.DOWN] = self._brought_back(name, stream, scene, symptoms[IncidentKind.DOWN])
                symptoms[IncidentKind.WISH] = health.unmet(scene)
                symptoms[IncidentKind.TREND] = self._trends(name, stream, lag.report if lag else None)
                found[name] = symptoms
                if symptoms[IncidentKind.DOWN].health is Health.FAIL and isinstance(reconcile(scene), GiveUp):
                    stuck.add(name)
        down = {name for name, each in found.items() if self._is_down_untold(name, each[IncidentKind.DOWN])}
        self.causes.judge(down)
        for name, symptoms in found.items():
            with self._of(name):
                stream = self.reading.streams[name]
                limits, why = stream.spec.lag.limits, self.causes.explained(stream, stuck=name in stuck)
                sample = sample_of(stream.snapshot, self.lags[name], stream.before, limits, symptoms, why)
                traced = self.traced[name]
                self.samples[name] = sample = replace(sample, trace=traced.trace, runs_out=traced.runs_out)
                emit_look(stream.snapshot, sample)

    def _brought_back(self, name: str, stream: Reading, scene: Scene, down: Symptom) -> Symptom:
        """Note whether a stream is brought back now; people are told of that in the look that does it."""
        if not is_due(scene, cluster_answers=not self.reading.clusters[stream.spec.cluster].problem):
            return down
        self.revive[name] = stream.spec
        if due_without_cluster(reconcile(scene)):
            self.beside.append(name)
        holder = scene.state.holder or ""
        unseen = scene.alive.get(holder) is not False or holder not in stream.snapshot.heartbeats
        if down.health is not Health.FAIL and unseen:
            return down
        why = down.description or f"Its driver {holder} is lost."
        return Symptom(Health.FAIL, f"{why} The revive DAG brings it back.")

    def _trends(self, name: str, stream: Reading, report: LagReport | None) -> Symptom:
        """Say what runs out, and note whether a fresh driver is due for that."""
        # Only by a YAML that can be used, as the upgrade will use it.
        auto = stream.spec is self.watching.good.get(name) and stream.spec.upgrade.refresh == "auto"
        before = stream.before or LagSample(0.0)
        found = looked_at(stream.snapshot, before.trace, before.runs_out, report, refresh=auto)
        self.traced[name] = found
        if found.refresh is not None:
            self.refresh[name] = found.refresh
        return found.symptom

    def _is_down_untold(self, name: str, symptom: Symptom) -> bool:
        """Whether a stream has no driver, and no incident of its own for that yet."""
        before = self.reading.streams[name].before
        told = before is not None and IncidentKind.DOWN.value in before.open_incidents
        return symptom.health is Health.FAIL and not told

    def _alive(self, stream: Reading) -> dict[str, bool | None]:
        drivers = {name: view.state for name, view in self.reading.views(stream).items()}
        return health.alive(stream.snapshot, stream.before, self.reading.beaten.get(stream.spec.name, {}), drivers)

    def _keep(self) -> None:
        """Write the samples; then it is known which streams cannot be watched."""
        self._write()
        self.causes.judge_roots()
        for name, spec in self.watched.items():
            failed, subject = self.reading.failed.get(name), (IncidentKind.WATCH, name)
            if failed and self.reading.roots[spec.control].problem:
                continue  # people are told of the root
            if failed:
                says_so = f"The watch cannot look at it as it should. {failed}"
                self.memory.judge(subject, Symptom(Health.FAIL, says_so, FAILING_SECONDS), self.now)
            elif name in self.reading.not_reached and name not in self.samples:
                continue  # nothing is known of it
            elif subject in self.memory.subjects:
                self.memory.judge(subject, Symptom(Health.PASS), self.now)

    def _write(self) -> None:
        answers = self.reading.each(
            {name: partial(self._write_one, self.reading.streams[name]) for name in self.samples}
        )
        for name, each in answers.items():
            if isinstance(each, NotReached):
                self.reading.not_reached.add(name)
                del self.samples[name]
            elif isinstance(each, Exception):
                self.reading.failed[name] = says(each)
        for root in self.reading.roots.values():
            root.judge_writes({spec.name: answers[spec.name] for spec in root.specs if spec.name in answers})

    def _write_one(self, stream: Reading) -> None:
        name = stream.spec.name
        lag, offsets = self.lags[name], self.reading.committed.get(name, ())
        keep(stream, self.samples[name], lag.report if lag else None, () if isinstance(offsets, Exception) else offsets)

    def _tell(self) -> None:
        """Send what is due, and keep who was told."""
        mine = [
            subject
            for subject in self.memory.subjects
            if subject in self.causes.found or subject == self.watching.files or self._is_stream(subject)
        ]
        shared = {subject: self._told(subject) for subject in mine}
        kept = {name: sample for name, sample in self.samples.items() if name not in self.reading.failed}
        streams = {
            name: Told(name, sample.incidents, sample.at, recipients_of([self.folder[name]]))
            for name, sample in kept.items()
        }
        tell([*shared.values(), *streams.values()], self.context, self._completed)
        for subject, told in shared.items():
            self.memory.told(subject, told.incidents[subject[0]])
        calls = {
            name: partial(append, self.reading.streams[name].hook.samples, replace(sample, incidents=told.incidents))
            for name, sample in kept.items()
            if (told := streams[name]).incidents != sample.incidents
        }
        for name, error in self.reading.each(calls).items():
            if isinstance(error, Exception):
                log.error("The list of those told of %s cannot be kept; they are told again: %s", name, says(error))

    def _completed(self, alerts: Sequence[Alert]) -> list[Alert]:
        """Return the alerts with the driver's links, and with the numbers of a lag."""
        lags = [each for each in alerts if each.kind == IncidentKind.LAG]
        reads = {
            each.stream: partial(read, stream.hook.samples)
            for each in lags
            if (stream := self.reading.streams.get(each.stream))
        }
        history = self.reading.each(reads)
        return [self._complete(each, history.get(each.stream, [])) for each in alerts]

    def _complete(self, alert: Alert, history: Sequence[LagSample] | Exception) -> Alert:
        stream = self.reading.streams.get(alert.stream)
        if stream is None or alert.stream not in self.lags:
            return alert
        links = self.reading.links(stream)
        if alert.kind != IncidentKind.LAG:
            return replace(alert, links=links)
        look = self.lags[alert.stream] or LagLook(alert.at, None)
        incident, limits = Incident(alert.incident, alert.since), stream.spec.lag.limits
        # Without this look's own sample, whose numbers the look has.
        known = () if isinstance(history, Exception) else history
        earlier = [sample for sample in known if sample.at < alert.at]
        return lag_alert(alert.stream, look, earlier, limits, open=alert.open, incident=incident, links=links)

    def _is_stream(self, subject: Subject) -> bool:
        return subject[0] is IncidentKind.WATCH and subject[1] in self.folder

    def _told(self, subject: Subject) -> Told:
        kind, name = subject
        state, cause = self.memory.subjects[subject].state, self.causes.found.get(subject)
        if subject == self.watching.files:
            # An unknown file may be anybody's; and the end is told to everybody who knows of the incident.
            everybody = self.watching.plan.unknown or state.incident is None
            concerned: Iterable[str] = self.folder if everybody else self.memory.down(subject)
        elif cause is not None:
            # Where the streams of a control root are not known, everybody is told.
            concerned = cause.streams or self.folder
        else:
            concerned = [name]
        whom = recipients_of(self.folder[each] for each in concerned if each in self.folder)
        return Told(name if cause is None else cause.subject, {kind: state}, self.now, whom)

    def tell_of_watch(self, problem: str) -> None:
        """Tell everybody that the watch itself fails, or works again; each of them once."""
        subject = (IncidentKind.WATCH, self.watching.watch)
        if not problem and subject not in self.memory.subjects:
            return
        symptom = Symptom(Health.FAIL if problem else Health.PASS, problem)
        self.memory.judge(subject, symptom, self.now)
        told = Told(self.watching.watch, {subject[0]: self.memory.subjects[subject].state}, self.now, self._everybody)
        try:
            tell([told], self.context)
        except Exception as error:  # noqa: BLE001 - it must not take the place of how the look ended
            log.error("People could not be told of the watch; the next look tries again: %s", says(error))
        self.memory.told(subject, told.incidents[subject[0]])

    @property
    def _everybody(self) -> dict[str, Any]:
        return recipients_of(self.folder.values())

    def _clean_up(self) -> None:
        due = {name: each for name, each in self.reading.streams.items() if each.clean_up_is_due(self.now)}
        for name, error in self.reading.each({name: partial(clean_up, each) for name, each in due.items()}).items():
            if isinstance(error, Exception) and not isinstance(error, NotReached):
                log.warning("The folder of %s cannot be cleaned up now: %s", name, says(error))

    def _compare(self) -> dict[str, str]:
        """Return the streams whose YAML asks for a release that was not tried yet, as at the look before.

        Files may be saved or synchronized one after the other. A stream that is not looked at now keeps its wish until
        the next look at it.
        """
        asking = {
            name: partial(unasked_release, each.hook, each.snapshot.state, each.spec)
            for name, each in self.reading.streams.items()
            if name in self.samples and each.spec is self.watching.good.get(name) and each.spec.upgrade.on_change
        }
        changed: dict[str, str] = {}
        for name, found in self.reading.each(asking).items():
            if isinstance(found, Exception):
                log.warning("%s: whether an upgrade is due cannot be said now: %s", name, says(found))
            elif found:
                changed[name] = found
        known = self.memory.changed
        self.memory.changed = {
            n: wish for n, wish in known.items() if n in self.watching.good and n not in self.watched
        }
        self.memory.changed |= changed
        return {name: wish for name, wish in changed.items() if known.get(name) == wish}

    def _summary(self) -> dict[str, Any]:
        theirs = (id for sample in self.samples.values() for id in sample.open_incidents.values())
        failed = sorted(self.reading.failed.items())
        return {
            "looked": len(self.samples),
            "seconds": round(time.monotonic() - self.began, 2),
            "unanswered": dict(failed[:SHOWN]) | ({"…": f"{len(failed) - SHOWN} more"} if failed[SHOWN:] else {}),
            "incidents": [*self.memory.open_incidents().values(), *theirs][:SHOWN],
            "never_deployed": self.reading.never_deployed[:SHOWN],
            "not_reached": sorted(self.reading.not_reached)[:SHOWN],
        }

    def _problem(self) -> str:
        """Say for which streams there was no time for long, without those of a control root that people are told of."""
        since = {
            name: self.memory.not_reached[name]
            for name in self.reading.not_reached
            if not self.reading.roots[self.folder[name].control].problem
        }
        late = [name for name, at in since.items() if self.now - at >= TRANSIENT_SECONDS]
        if not late:
            return ""
        return (
            f"For {duration(self.now - min(since.values()))} its looks have had no time for {named(late)}. Their "
            "folders or checkpoints are too slow, or the machine is too busy: give it more, or look more rarely "
            "(`watch.schedule`)."
        )

    @contextlib.contextmanager
    def _of(self, name: str) -> Iterator[None]:
        """Let what goes wrong with one stream be that stream's."""
        try:
            yield
        except Exception as error:
            log.exception("%s cannot be judged.", name)
            self.reading.failed[name] = says(error)

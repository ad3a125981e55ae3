"""One look of the watch: what it goes on from, what it tells people of itself, and what it leaves for the next one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout

from airflow_stream_provider.control.bounded import NoAnswer, call, gather
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StreamError, says
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.causes import FolderMemory
from airflow_stream_provider.monitoring.delivery import tell_of_watch
from airflow_stream_provider.monitoring.folder_look import FolderLook, look_at_all
from airflow_stream_provider.monitoring.folder_reading import opened
from airflow_stream_provider.monitoring.incidents import IncidentKind, IncidentState, Stored
from airflow_stream_provider.planning.stream_health import RESTING
from airflow_stream_provider.spec.folder import read_folder
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import (
    CHANGE,
    LAST_GOOD,
    Watched,
    WatchedFolder,
    declaration,
    declared_spec,
    is_due,
    watched_folder,
)

# XCom of a look: what the next one goes on from, and what it found.
MEMORY = "memory"
SUMMARY = "summary"
# XCom: the good declarations by file name. Pushed when one has changed, and once an hour, since Airflow removes
# those of a look that is cleared.
DECLARED = "declared"
DECLARED_SECONDS = 3600.0
# Runs of NAME__revive that one look triggers: Airflow maps a task at most 1,024 times, and each is a task of its own.
MAX_REVIVED = 100
# Seconds in which the files must have been read, and in which all streams that no file describes must have been.
READ_SECONDS = 60.0
LEFT_SECONDS = 10.0
# When more YAMLs than these cannot be used, people are told once for all of them.
MAX_BROKEN = 20
# Files that an alert names.
NAMED = 5

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LookMemory(Stored):
    """The memory of a look for the next one; small, since every look writes one.

    :param at: date of the last scheduled look that did not fail, seconds since 1970; 0: none.
    :param streams: what `look_at_all` left.
    :param incident: that the watch itself fails.
    :param files: that YAML files cannot be used.
    :param unusable: how many files the incident of `files` is about.
    :param in_common: whether people are told once of all streams whose YAML cannot be used.
    :param skipped: whether the last look left its work to one that waited.
    :param declared_at: when the good declarations were kept last, seconds since 1970.
    :param revived: the last stream that was to be brought back: the next look begins after it.
    :param changed: by stream the wish for which an upgrade was due (`upgrade.on_change`).
    """

    at: float = 0.0
    streams: Mapping[str, Any] = field(default_factory=dict)
    incident: IncidentState = field(default_factory=IncidentState)
    files: IncidentState = field(default_factory=IncidentState)
    unusable: int = 0
    in_common: bool = False
    skipped: bool = False
    declared_at: float = 0.0
    revived: str = ""
    changed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, left: Any) -> LookMemory:
        """Return what an earlier look has left; nothing when there is none, or another version wrote it."""
        try:
            return cls.from_json(left or {})
        except ValueError:
            log.warning("What the last look left was written by another version; beginning anew.")
            return cls()


class Look:
    """One look.

    :param streams: the folder of the YAML files, or streams.
    :param prefix: of the DAG ids.
    :param context: of the task.
    """

    def __init__(self, streams: str | Path | Sequence[StreamSpec], prefix: str, context: Context) -> None:
        self.streams, self.prefix = streams, prefix
        self.context: Any = context
        self.ti = self.context["ti"]
        self.memory = LookMemory.of(self._earlier(MEMORY))

    @cached_property
    def declared(self) -> dict[str, dict[str, Any]]:
        """The good declarations that the last look knew, by file name; large, and a look that is skipped needs none."""
        left = self._earlier(DECLARED)
        known = left.items() if isinstance(left, dict) else ()
        return {file: fields for file, fields in known if isinstance(fields, dict)}

    @property
    def name(self) -> str:
        """The name of the watch in alerts."""
        return Path(self.streams).name if isinstance(self.streams, (str, Path)) else self.ti.dag_id

    def go(self) -> list[dict[str, Any]]:
        """Look, tell people when that fails or works again, and return what is to be triggered."""
        self._leave_to_others()
        run = self.context["dag_run"]
        # A person who triggers it wants to know of all streams.
        date, scheduled = run.run_after.timestamp(), run.run_type == "scheduled"
        folder: WatchedFolder | None = None
        try:
            folder = self._read()
            in_common = broken_in_common(folder, self.memory.in_common)
            watched = self._due(folder, self.memory.at if scheduled else 0.0, date)
            found = self._look(folder, watched, in_common=bool(in_common))
            self.memory = replace(self.memory, streams=found.memory, at=date if scheduled else self.memory.at)
            # At once: people have been told by now, and would be told again if this process ended before.
            self._keep()
            if folder.declared != self.declared or date >= self.memory.declared_at + DECLARED_SECONDS:
                self._push(DECLARED, dict(folder.declared))
                self.memory = replace(self.memory, declared_at=date)
            due = {each.spec.name for each in watched}
            triggers = self._triggers(found, folder) + self._upgrades(found, folder, due)
        except (Exception, AirflowTaskTimeout) as error:
            self._tell(f"The watch cannot look at its streams, and would not notice their end. {says(error)}", folder)
            self._keep()
            raise
        self._tell(found.problem, folder)
        problem, count = unusable(folder, in_common)
        worse = count > self.memory.unusable
        files = self._told(f"{self.name}-files", problem, self.memory.files, folder, worse=worse)
        self.memory = replace(self.memory, files=files, unusable=count, in_common=bool(in_common))
        self._keep()
        self.ti.xcom_push(key=SUMMARY, value=dict(found.summary))
        return triggers

    def _leave_to_others(self) -> None:
        """Skip this look when another one waits, which finds all that this one would find.

        But not after one that was skipped: where a task waits longer for its slot than a minute, another one always
        waits. So neither when that cannot be kept.
        """
        if self.memory.skipped or not self._dated:
            self.memory = replace(self.memory, skipped=False)
        elif self.ti.get_ti_count(self.ti.dag_id, task_ids=[self.ti.task_id], states=["scheduled", "queued"]):
            self.memory = replace(self.memory, skipped=True)
            self._keep()
            raise AirflowSkipException("Another look waits already; it finds all that this one would find.")

    def _read(self) -> WatchedFolder:
        if not isinstance(self.streams, (str, Path)):
            given = {spec.name: spec for spec in self.streams}
            return WatchedFolder(tuple(map(Watched, given.values())), {name: name for name in given}, {})
        # The streams, and the control roots, that the watch cannot look at as it should, as people know.
        known = FolderMemory.from_json(self.memory.streams).open_incidents()
        told = {name for kind, name in known if kind in (IncidentKind.WATCH, IncidentKind.CONTROL)}
        folder = read_watched(Path(self.streams), self.declared, partial(given_up, watch=self.ti.dag_id, told=told))
        for each in folder.streams:
            if each.problem:
                log.warning("%s is watched by its last good declaration: %s", each.spec.name, each.problem)
        return folder

    def _due(self, folder: WatchedFolder, last: float, date: float) -> Sequence[Watched]:
        if not isinstance(self.streams, (str, Path)):
            return folder.streams
        return [each for each in folder.streams if each.last or is_due(each.spec, last, date)]

    def _look(self, folder: WatchedFolder, watched: Sequence[Watched], *, in_common: bool) -> FolderLook:
        due = {each.spec.name for each in watched}
        others = [e.spec for e in folder.streams if e.spec.name not in due and e.spec.watch.schedule is not None]
        return look_at_all(watched, self.memory.streams, self.context, others=others, in_common=in_common)

    def _triggers(self, found: FolderLook, folder: WatchedFolder) -> list[dict[str, Any]]:
        """Return the arguments of the triggers."""
        names = [name for name in found.revive if name in folder.dags]
        chosen: list[str] = []
        # After the last one of the look before: streams that are never well again must not keep the others from their
        # run.
        for name in sorted(names, key=lambda name: (name <= self.memory.revived, name)):
            if len(chosen) == MAX_REVIVED:
                log.warning("%d streams are to be brought back; the next looks take the others.", len(names))
                break
            if self._has_room(self._dag(folder.dags[name], "revive"), beside=name in found.beside):
                chosen.append(name)
        if chosen:
            self.memory = replace(self.memory, revived=chosen[-1])
        broken = {each.spec.name: declaration(each.spec) for each in folder.streams if each.problem}
        if good := {folder.dags[name]: broken[name] for name in chosen if name in broken}:
            self.ti.xcom_push(key=LAST_GOOD, value=good)
        arguments = {"trigger_run_id": f"watch__{self.ti.run_id}", "conf": {"look": self.ti.run_id}}
        return [{"trigger_dag_id": self._dag(folder.dags[name], "revive"), **arguments} for name in chosen]

    def _upgrades(self, found: FolderLook, folder: WatchedFolder, due: Collection[str]) -> list[dict[str, Any]]:
        """Return the arguments of the triggers of upgrades. A change is taken up when the next look finds the same.

        Files may be saved or synchronized one after the other. The next look at a stream is meant, so what was found of
        one that is not due now is kept.
        """
        known = self.memory.changed
        seen = {name: wish for name, wish in found.changed.items() if known.get(name) == wish}
        kept = {name: wish for name, wish in known.items() if name in folder.dags and name not in due}
        self.memory = replace(self.memory, changed={**kept, **found.changed})
        dags = {name: self._dag(folder.dags[name], "upgrade") for name in sorted(seen)}
        free = [name for name in dags if not self.ti.get_dr_count(dags[name], states=["queued", "running"])]
        # One run for each wish: if that could not even begin, people are told once, and clear it or change the YAML.
        arguments = [{"trigger_dag_id": dags[name], "trigger_run_id": f"{CHANGE}{seen[name]}"} for name in free]
        return [{**each, "conf": {}} for each in arguments[:MAX_REVIVED]]

    def _has_room(self, dag: str, *, beside: bool) -> bool:
        """Whether no run of ``NAME__revive`` is under way; or one that runs, beside which another is needed."""
        runs = self.ti.get_dr_count(dag, states=["queued", "running"])
        return not runs or (beside and runs == 1 and not self.ti.get_dr_count(dag, states=["queued"]))

    def _dag(self, name: str, verb: str) -> str:
        return f"{self.prefix}{name}__{verb}"

    def _tell(self, problem: str, folder: WatchedFolder | None) -> None:
        """Tell people that the watch fails or works again."""
        self.memory = replace(self.memory, incident=self._told(self.name, problem, self.memory.incident, folder))

    def _told(
        self, name: str, problem: str, before: IncidentState, folder: WatchedFolder | None, *, worse: bool = False
    ) -> IncidentState:
        """Return the state of an incident of the watch after everybody was told of it whom a stream names.

        :param folder: None when it could not be read: told are those whom its streams named at the last look.
        """
        if folder is not None:
            specs = [each.spec for each in folder.streams]
        else:
            known = (declared_spec(Path(file), fields) for file, fields in self.declared.items())
            specs = [spec for spec in known if spec is not None]
        return tell_of_watch(name, problem, before, specs, self.context, worse=worse)

    def _keep(self) -> None:
        self._push(MEMORY, self.memory.to_json())

    def _push(self, key: str, value: Any) -> None:
        # Airflow orders the XCom of earlier runs by logical date: one without would be found for ever, or never.
        if self._dated:
            self.ti.xcom_push(key=key, value=value)

    @property
    def _dated(self) -> bool:
        return self.context["dag_run"].logical_date is not None

    def _earlier(self, key: str) -> Any:
        # Without a map index Airflow 3.3 orders what earlier runs left by map index only, and returns any of it.
        return self.ti.xcom_pull(task_ids=self.ti.task_id, key=key, include_prior_dates=True, map_indexes=-1)


def read_watched(
    folder: Path,
    before: Mapping[str, Mapping[str, Any]],
    given_up: Callable[[Sequence[StreamSpec], Mapping[str, StreamSpec]], Collection[str]],
) -> WatchedFolder:
    """Return what is to be watched of a folder; where that is gone, what was watched of it.

    :param before: the good declarations that the last look knew, by file name.
    :param given_up: see `given_up`; these are looked at for the last time.
    :raises SpecError: the folder hangs, or is gone and nothing is known of it.
    """

    def in_time(read: Callable[[], T]) -> T:
        try:
            return call(read, READ_SECONDS, "The folder")
        except NoAnswer:
            raise SpecError(
                f"The YAML files in {folder} could not be read within {READ_SECONDS:.0f} s.",
                next_step="Look at the mount of this folder on the worker.",
                folder=str(folder),
            ) from None

    files = in_time(lambda: read_folder(folder) if folder.is_dir() or not before else [])
    found = in_time(partial(watched_folder, folder, files, before))
    left = [each.spec for each in found.streams if each.spec.name not in found.dags]
    gone = given_up(left, {file.spec.name: file.spec for file in files if file.spec is not None}) if left else ()
    if not gone:
        return found
    rest = {key: fields for key, fields in before.items() if fields.get("name") not in gone}
    found = in_time(partial(watched_folder, folder, files, rest))
    known = {each.spec.name for each in found.streams}
    last = (Watched(each, last=True) for each in left if each.name in gone and each.name not in known)
    return replace(found, streams=(*found.streams, *last))


def broken_in_common(folder: WatchedFolder, before: bool) -> list[str]:
    """Return what is wrong with the YAMLs that cannot be used, if they are so many that people are told once.

    :param before: whether that was so at the last look. Then it is over with the last of them: who mends them one by
        one is not told of each that is left.
    """
    broken = [each.problem for each in folder.streams if each.problem]
    return broken if before or len(broken) > MAX_BROKEN else []


def unusable(folder: WatchedFolder, broken: Sequence[str]) -> tuple[str, int]:
    """Return sentences on the files that no stream's own incident covers, and the number of these files.

    :param broken: see `broken_in_common`.
    """
    said = []
    if folder.unknown:
        said.append(f"Their streams are not watched, as nothing is known of them: {_first(folder.unknown)}")
    if broken:
        said.append(f"{len(broken)} streams have a YAML that cannot be used: {_first(broken)}")
    return " ".join(said), len(folder.unknown) + len(broken)


def _first(problems: Sequence[str]) -> str:
    more = f" And {len(problems) - NAMED} more." if len(problems) > NAMED else ""
    return " ".join(problems[:NAMED]) + more


def given_up(
    left: Sequence[StreamSpec], now: Mapping[str, StreamSpec], watch: str, told: Collection[str] = ()
) -> set[str]:
    """Return the names of those streams that need not be watched any more. No file describes them where they are.

    They were never deployed, were stopped, have finished, or were never held. Or another watch looks at them, as their
    YAML is in another folder now. Or a driver has held them under another control root. Or their control log has gone,
    too, and people know of that. A stream that cannot be read is watched on.

    :param now: the streams that files describe, by name: these have moved to another control root.
    :param watch: id of the DAG that asks.
    :param told: the streams, and the URLs of control roots, that the watch could not look at as it should, as people
        were told.
    """
    # Here, as threads cannot read Airflow's connections; what is wrong with one the look says.
    moved = {spec.name: now[spec.name] for spec in left if spec.name in now}
    roots = {url: opened(url) for url in {spec.control for spec in (*left, *moved.values())}}
    calls = {
        spec.name: partial(_is_given_up, spec, moved.get(spec.name), watch, roots[spec.control], told) for spec in left
    }
    answers = gather(calls, LEFT_SECONDS)
    return {name for name, answer in answers.items() if answer is True}


def _is_given_up(
    spec: StreamSpec, moved: StreamSpec | None, watch: str, root: ControlRoot | StreamError, told: Collection[str]
) -> bool:
    if moved is not None:
        with contextlib.suppress(ControlUnavailable):  # people are told of that root
            new = StreamHook.of(moved)
            if new.exists() and new.control_log.refresh().epoch:
                return True
    if isinstance(root, StreamError):
        raise root
    hook = StreamHook.of(spec)
    if not hook.exists():
        gone = moved is not None or spec.name not in root.seen()
        return gone or spec.name in told or spec.control in told
    if hook.control_log.refresh().phase in RESTING:
        return True
    sample = samples.last(hook.samples)
    return sample is not None and sample.by not in ("", watch)

"""Watch all streams of a folder: one look at each, and the streams that have to be brought back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import says
from airflow_stream_provider.operators.watched_files import (
    LookMemory,
    given_up,
    moved,
    read_watched,
    told_in_common,
    unsettled,
    unusable,
)
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import (
    Watched,
    WatchedFolder,
    declaration,
    declared_spec,
    hash_of,
    is_due,
)

if TYPE_CHECKING:
    from airflow_stream_provider.monitoring.folder_look import FolderLook

# XCom of a look: what the next one goes on from, and what it found.
MEMORY = "memory"
SUMMARY = "summary"
# XCom: the good declarations by file name. Pushed when one has changed, and once an hour, since Airflow removes
# those of a look that is cleared.
DECLARED = "declared"
DECLARED_SECONDS = 3600.0
# XCom: the last good declarations of streams that are to be brought back and whose YAML cannot be used, by DAG name.
LAST_GOOD = "last_good"
# XCom: by stream the wish for which an upgrade was due at the look before (`upgrade.on_change`).
CHANGED = "changed"
# The beginning of the ids of the runs of NAME__upgrade that a look triggers.
CHANGE = "change__"
# Runs of NAME__revive that one look triggers: Airflow maps a task at most 1,024 times, and each is a task of its own.
MAX_REVIVED = 100


class WatchStreamsOperator(BaseOperator):
    """Look once at every stream of a folder that is due, tell people of incidents, and say which streams to bring back.

    A look measures lag and health, sends the gauges, adds a sample to those that the command line shows, and tells
    people of every incident when it opens and when it is over, with the same id; for a place that many streams need
    also when more of them go down. It brings nothing back itself: it returns the arguments of TriggerDagRunOperator for
    the runs of ``NAME__revive`` that are needed now, at most 100. Streams with a queued or running one are left out;
    but beside one that runs, and may wait for a cluster, another is triggered for steps that need no cluster.

    With `upgrade.on_change` it also returns those for a run of ``NAME__upgrade``, once two looks have found the same
    change of the YAML or of a file, and no upgrade is queued or runs.

    The streams are read when the task runs. One whose YAML cannot be used is looked at by its last good declaration,
    which the watch keeps in XCom; so is one that no file describes any more, until it was stopped, has finished, or
    another watch looks at it, or people know that its control log has gone, too. When the look itself fails, everybody
    is told whom a stream of the last good look names, once, and once that it works again.

    Skipped when another look waits already, but never twice in a row; when it was cleared, as another look has been
    since; and in a backfill.

    :param streams: the folder of the YAML files, whose streams are looked at as often as their `watch.schedule` says;
        or streams as read by `load_spec`, each of which is looked at by every run.
    :param prefix: of the DAG ids, as given to `stream_dags`.

    XCom: a list of the arguments; under the key `summary` what was found; under `memory`, `declared`, `changed` and
    `last_good` what later looks and ``NAME__revive`` need.
    """

    ui_color = "#e6f3f8"

    def __init__(self, *, streams: str | Path | Sequence[StreamSpec], prefix: str = "", **kwargs: Any) -> None:
        # No retries: the next look is the retry, and knows what this one has told people.
        super().__init__(**{**kwargs, "retries": 0})
        self.streams = streams
        self.prefix = prefix

    @override
    def execute(self, context: Context) -> list[dict[str, Any]]:
        ti: Any = context["ti"]
        if ti.try_number > 1:
            raise AirflowSkipException("This look was cleared. The next run looks; or trigger this DAG.")
        if context["dag_run"].run_type == "backfill":
            raise AirflowSkipException("A look finds what is now, and nothing of another time.")
        return _Look(self, context).go()


class _Look:
    """One look: what the look before has left, and what this one leaves."""

    def __init__(self, task: WatchStreamsOperator, context: Context) -> None:
        self.streams, self.prefix, self.log = task.streams, task.prefix, task.log
        self.context: Any = context
        self.ti = self.context["ti"]
        self.memory = LookMemory.from_json(self._earlier(MEMORY))
        self.due: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name of the watch in alerts."""
        return Path(self.streams).name if isinstance(self.streams, (str, Path)) else self.ti.dag_id

    @cached_property
    def declared(self) -> Mapping[str, Any]:
        """The good declarations that the last look knew, by file name."""
        found = self._earlier(DECLARED)
        known = found.items() if isinstance(found, dict) else ()
        return {file: fields for file, fields in known if isinstance(fields, dict)}

    def go(self) -> list[dict[str, Any]]:
        """Look, tell people when that fails or works again, and return what is to be triggered."""
        self._leave_to_others()
        date, scheduled = self._date()
        folder: WatchedFolder | None = None
        try:
            folder = self._read()
            found = self._look(folder, self.memory.at if scheduled else 0.0, date)
            self.memory = replace(self.memory, streams=dict(found.memory), at=date if scheduled else self.memory.at)
            # At once: people have been told by now, and would be told again if this process ended before.
            self._keep()
            self._declare(folder, date)
            triggers = self._triggers(found, folder) + self._upgrades(found, folder)
        except (Exception, AirflowTaskTimeout) as error:
            self._tell(f"The watch cannot look at its streams, and would not notice their end. {says(error)}", folder)
            self._keep()
            raise
        self._tell(found.problem, folder)
        self._tell_of_files(folder)
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

    def _date(self) -> tuple[float, bool]:
        """Return the date of the run, and whether it was scheduled: a person a person who triggers it wants to know of
        all streams.
        """
        run = self.context["dag_run"]
        return run.run_after.timestamp(), run.run_type == "scheduled"

    def _read(self) -> WatchedFolder:
        if not isinstance(self.streams, (str, Path)):
            given = {spec.name: spec for spec in self.streams}
            return WatchedFolder(tuple(map(Watched, given.values())), {name: name for name in given}, {})

        def left(specs: Sequence[StreamSpec]) -> set[str]:
            return given_up(specs, self.ti.dag_id, self._told_of())

        folder = read_watched(self.streams, lambda: self.declared, self.memory.declared, left)
        for each in folder.streams:
            if each.problem:
                self.log.warning("%s is watched by its last good declaration: %s", each.spec.name, each.problem)
        return self._with_moved(folder)

    def _told_of(self) -> set[str]:
        """Return the streams, and the control roots, that the watch cannot look at as it should, as people know."""
        from airflow_stream_provider.monitoring.causes import FolderMemory
        from airflow_stream_provider.monitoring.incidents import IncidentKind

        open_now = FolderMemory.from_json(self.memory.streams).open_incidents()
        return {name for kind, name in open_now if kind in (IncidentKind.WATCH, IncidentKind.CONTROL)}

    def _with_moved(self, folder: WatchedFolder) -> WatchedFolder:
        """Return the folder with a problem for each stream that has moved to another control root in silence."""
        specs = {each.spec.name: each.spec for each in folder.streams}
        changed = hash_of(folder.declared) != self.memory.declared
        old = moved(specs.values(), self.declared.values() if changed else (), self.memory.moved)
        says = unsettled(old, specs)
        self.memory = replace(self.memory, moved={name: old[name] for name in says})
        streams = (replace(each, problem=each.problem or says.get(each.spec.name, "")) for each in folder.streams)
        return replace(folder, streams=tuple(streams))

    def _look(self, folder: WatchedFolder, last: float, date: float) -> FolderLook:
        # Imported here: parsing a DAG file needs neither hooks nor clients.
        from airflow_stream_provider.monitoring.folder_look import look_at_all

        watched = folder.streams
        if isinstance(self.streams, (str, Path)):
            watched = tuple(each for each in watched if each.last or is_due(each.spec, last, date))
        broken = [each.spec.name for each in folder.streams if each.problem]
        self.memory = replace(self.memory, broken=told_in_common(broken, self.memory.broken))
        alone = {name for name, in_common in self.memory.broken.items() if not in_common}
        watched = tuple(each if each.spec.name in alone else replace(each, problem="") for each in watched)
        self.due = frozenset(each.spec.name for each in watched)
        others = [e.spec for e in folder.streams if e.spec.name not in self.due and e.spec.watch.schedule is not None]
        return look_at_all(watched, self.memory.streams, self.context, others=others)

    def _triggers(self, found: FolderLook, folder: WatchedFolder) -> list[dict[str, Any]]:
        """Return the arguments of the triggers."""
        names = [name for name in found.revive if name in folder.dags]
        chosen: list[str] = []
        # After the last one of the look before: streams that are never well again must not keep the others from their
        # run.
        for name in sorted(names, key=lambda name: (name <= self.memory.revived, name)):
            if len(chosen) == MAX_REVIVED:
                self.log.warning("%d streams are to be brought back; the next looks take the others.", len(names))
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

    def _upgrades(self, found: FolderLook, folder: WatchedFolder) -> list[dict[str, Any]]:
        """Return the arguments of the triggers of upgrades. A change is taken up when the next look finds the same.

        Files may be saved or synchronized one after the other. The next look at a stream is meant, so what was found of
        one that is not due now is kept.
        """
        if not (found.changed or any(each.spec.upgrade.on_change for each in folder.streams)):
            return []
        before = self._earlier(CHANGED)
        known = before if isinstance(before, dict) else {}
        seen = {name: wish for name, wish in found.changed.items() if known.get(name) == wish}
        kept = {name: wish for name, wish in known.items() if name in folder.dags and name not in self.due}
        self._push(CHANGED, {**kept, **found.changed})
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
        """Tell people that the watch fails or works again.

        :param folder: None when it could not be read: told are those whom its streams named at the last look.
        """
        told = self._told(self.name, problem, self.memory.incident, folder)
        self.memory = replace(self.memory, incident=told)

    def _tell_of_files(self, folder: WatchedFolder) -> None:
        """Tell people of files that cannot be used: an incident of its own, which hides no look that fails."""
        problem, count = unusable(folder, self.memory.broken)
        worse = count > self.memory.unusable
        told = self._told(f"{self.name}-files", problem, self.memory.files, folder, worse=worse)
        self.memory = replace(self.memory, files=told, unusable=count)

    def _told(
        self, name: str, problem: str, before: Mapping[str, Any], folder: WatchedFolder | None, *, worse: bool = False
    ) -> Mapping[str, Any]:
        if not problem and not before:
            return {}
        # Imported here: parsing a DAG file needs no notifiers.
        from airflow_stream_provider.monitoring.delivery import tell_of_watch

        if folder is not None:
            specs = [each.spec for each in folder.streams]
        else:
            known = (declared_spec(Path(file), fields) for file, fields in self.declared.items())
            specs = [spec for spec in known if spec is not None]
        return tell_of_watch(name, problem, before, specs, self.context, worse=worse)

    def _declare(self, folder: WatchedFolder, date: float) -> None:
        """Keep the good declarations, if they have changed or are an hour old."""
        found = hash_of(folder.declared)
        if found != self.memory.declared or date >= self.memory.declared_at + DECLARED_SECONDS:
            self._push(DECLARED, dict(folder.declared))
            self.memory = replace(self.memory, declared=found, declared_at=date)

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

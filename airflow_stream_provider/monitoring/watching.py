"""The streams that one watch looks after, by the notes of its control roots, and what it remembers there."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_stream_provider.control.bounded import gather
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.texts import count
from airflow_stream_provider.monitoring.causes import FAILING_SECONDS, NAMED, FolderMemory, Subject
from airflow_stream_provider.monitoring.folder_reading import EACH_SECONDS, READ_SECONDS, FolderReading, open_roots
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom
from airflow_stream_provider.spec.folder import StreamFile
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import is_due, note_of, watched_folder


class Watching:
    """The streams and control roots of one watch in one look; see `FolderLook` for the parameters.

    `good` are the streams of the YAML files that can be used, `plan` what is watched, `folder` that without what is not
    to be watched (`watch.schedule`), `memory` that of the looks before.
    """

    def __init__(
        self,
        watch: str,
        files: Sequence[StreamFile],
        roots: Collection[str],
        left: Any,
        save: Callable[[Any], None],
        *,
        unread: str,
        now: float,
    ) -> None:
        self.watch = watch
        self.now = now
        self.save = save
        self.good = {file.spec.name: file.spec for file in files if file.spec is not None}
        self.roots = open_roots(sorted({*roots, *(spec.control for spec in self.good.values())}))
        self.memory = self._newest_memory(left)
        self.plan = watched_folder(watch, files, {url: root.notes for url, root in self.roots.items()}, unread)
        self._follow_moves()
        self.folder = {name: spec for name, spec in self.plan.streams.items() if spec.watch.schedule is not None}

    def _newest_memory(self, left: Any) -> FolderMemory:
        notes = (root.notes.get(f".{self.watch}") for root in self.roots.values())
        return max(map(FolderMemory.read, (left, *notes)), key=lambda memory: memory.at)

    def keep(self) -> None:
        """Keep the memory in the first control root that takes it, or else where `save` does."""
        memory = self.memory.kept(self.now).to_json()
        note = json.dumps(memory, separators=(",", ":")).encode()
        if not any(root.note({f".{self.watch}": note}) for root in self.roots.values()):
            self.save(memory)

    def _follow_moves(self) -> None:
        """Watch a stream where its YAML says once a driver has held it there."""
        calls = {
            name: partial(_has_held, spec)
            for name, spec in self.plan.moved.items()
            if name in self.roots[spec.control].notes
        }
        held = {name for name, answer in gather(calls, READ_SECONDS, EACH_SECONDS).items() if answer is True}
        for name in held:
            self.roots[self.plan.streams[name].control].forget([name])
        streams = {**self.plan.streams, **{name: self.plan.moved[name] for name in held}}
        troubles = {name: trouble for name, trouble in self.plan.troubles.items() if name not in held}
        self.plan = replace(self.plan, streams=streams, troubles=troubles)

    def declare(self, names: Collection[str] = ()) -> None:
        """Note what the YAML files say now of streams that were deployed; `names`: and of these."""
        for url, root in self.roots.items():
            mine = (spec for spec in self.plan.streams.values() if spec.control == url)
            known = [spec for spec in mine if spec.name in root.notes or spec.name in names]
            root.note({spec.name: note_of(spec, self.watch) for spec in known})

    def give_up(self, reading: FolderReading) -> None:
        """Forget streams that no YAML describes: those that rest, and those whose log has gone as people know."""
        resting = {name for name, each in reading.streams.items() if _rests(each.snapshot.state)}
        over = self.plan.left & (resting | {name for name in reading.gone if self.memory.is_known(name)})
        for name in over:
            self.roots[self.plan.streams[name].control].forget([name])
            self.memory.judge((IncidentKind.WATCH, name), Symptom(Health.PASS), self.now)
        troubles = {name: trouble for name, trouble in self.plan.troubles.items() if name not in over}
        self.plan = replace(self.plan, troubles=troubles)

    def judge_files(self) -> None:
        """Follow the one incident of all YAML files that are wrong; people are told again when there are more."""
        troubles = {name: says for name, says in self.plan.troubles.items() if name in self.folder}
        subject, wrong = self.files, [*self.plan.unknown, *troubles.values()]
        concerned = (*troubles, *self.plan.unknown)
        # A control root that is away does not tell which YAML files its streams had.
        if wrong or (subject in self.memory.subjects and not any(root.problem for root in self.roots.values())):
            worse = bool(set(concerned) - set(self.memory.down(subject)))
            more = f" And {len(wrong) - NAMED} more." if len(wrong) > NAMED else ""
            text = f"{count(len(wrong), 'YAML file')} cannot be used: {' '.join(wrong[:NAMED])}{more}"
            health = Health.FAIL if wrong else Health.PASS
            patience = FAILING_SECONDS if wrong else 0.0
            self.memory.judge(subject, Symptom(health, text, patience, worse), self.now, concerned)

    @property
    def files(self) -> Subject:
        """The incident of all YAML files."""
        return IncidentKind.WATCH, f"{self.watch}-files"

    def due(self, *, everything: bool) -> list[str]:
        """Return the streams that are to be looked at; `everything`: those that are not due, too."""
        last = 0.0 if everything else self.memory.looked
        # A look has to find out whether a stream without a YAML rests.
        always = self.plan.troubles
        return [name for name, spec in self.folder.items() if name in always or is_due(spec, last, self.now)]


def _rests(state: StreamState) -> bool:
    """Return whether a stream has no driver, and none comes up."""
    return state.resting and state.candidate is None and all(each.ended for each in state.deployments.values())


def _has_held(spec: StreamSpec) -> bool:
    """Return whether a driver has ever held the stream under its control root."""
    return StreamHook.of(spec).control_log.refresh().epoch > 0

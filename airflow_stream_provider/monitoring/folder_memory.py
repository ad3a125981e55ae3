"""The memory that a look at a folder hands to the next one: incidents that no samples can keep, and who was told."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_stream_provider.lag.streaks import Streaks
from airflow_stream_provider.monitoring.causes import FAILING_SECONDS
from airflow_stream_provider.monitoring.incidents import IncidentKind, IncidentState, Symptom

log = logging.getLogger(__name__)

VERSION = 1
# The memory forgets a subject that was not looked at for so long: no stream needs it any more, or it has another name.
FORGOTTEN_SECONDS = 86400.0
# For so long it is remembered that something was bad which is well again.
LATELY_SECONDS = 600.0
# Characters of a description that are kept. Each look that finds it again tells all of it.
KEPT = 200

Subject = tuple[IncidentKind, str]


@dataclass(frozen=True)
class Remembered:
    """One thing that was out of reach, or one stream that could not be watched.

    :param at: the last look that judged it, seconds since 1970.
    :param bad_at: the last of those that found it bad for some while; None: none did lately.
    :param down: the streams that are down for want of it.
    """

    state: IncidentState
    at: float
    bad_at: float | None = None
    down: tuple[str, ...] = ()

    @property
    def matters(self) -> bool:
        """Whether the next look must know of it."""
        state = self.state
        return bool(self.bad_at or state.streaks.bad or state.incident or state.acknowledged)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        state = replace(self.state, description=self.state.description[:KEPT])
        return {"state": state.to_json(), "at": self.at, "bad_at": self.bad_at, "down": list(self.down)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Remembered:
        """Return what `to_json` wrote.

        :raises ValueError, KeyError, TypeError, AttributeError: it is none.
        """
        bad_at = None if data["bad_at"] is None else float(data["bad_at"])
        down = tuple(map(str, data["down"]))
        return cls(IncidentState.from_json(data["state"]), float(data["at"]), bad_at, down)


@dataclass
class FolderMemory:
    """The memory that looks hand to each other. A healthy subject leaves nothing in it.

    :param subjects: by kind and name, what is, or was lately, wrong.
    :param not_reached: by stream, since when looks have had no time for it.
    """

    subjects: dict[Subject, Remembered] = field(default_factory=dict)
    not_reached: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Any) -> FolderMemory:
        """Return the memory that an earlier look has left; an empty one where it is damaged or of another version."""
        if not data:
            return cls()
        try:
            if data["version"] != VERSION:
                raise ValueError(f"it is of version {data['version']!r:.20}")
            found = {
                (IncidentKind(kind), str(name)): Remembered.from_json(each) for kind, name, each in data["subjects"]
            }
            since = {str(name): float(at) for name, at in data["not_reached"].items()}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            log.warning("What the last look has left cannot be used; people may be told again: %s", error)
            return cls()
        return cls(found, since)

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the memory as a JSON object, without what is well or was not looked at for a day."""
        kept = [
            [kind.value, name, each.to_json()]
            for (kind, name), each in self.subjects.items()
            if now - each.at < FORGOTTEN_SECONDS and each.matters
        ]
        since = {name: at for name, at in self.not_reached.items() if now - at < FORGOTTEN_SECONDS}
        return {"version": VERSION, "subjects": kept, "not_reached": since}

    def first(self, names: Iterable[str]) -> list[str]:
        """Return these streams in the order in which to look at them: first those for which there was no time, and last
        those that could not be looked at, which may hang again.
        """
        return sorted(
            names, key=lambda name: (name not in self.not_reached, (IncidentKind.WATCH, name) in self.subjects)
        )

    def reached(self, names: Iterable[str], left_out: Collection[str], at: float) -> None:
        """Keep for which of the streams of a look, `names`, there was no time."""
        for name in names:
            since = self.not_reached.pop(name, at)
            if name in left_out:
                self.not_reached[name] = since

    def judge(self, subject: Subject, symptom: Symptom, at: float, down: Sequence[str] = ()) -> None:
        """Follow one subject with what a look says of it; `down`: the streams that are down for want of it."""
        kind, name = subject
        known = self.subjects.get(subject) or Remembered(IncidentState(Streaks()), at)
        state = known.state.after(f"{name}-{kind.value}", symptom, at)
        # A moment puts no driver to its end.
        lasts = state.streaks.bad is not None and at - state.streaks.bad >= FAILING_SECONDS
        lately = known.bad_at if known.bad_at is not None and at - known.bad_at < LATELY_SECONDS else None
        self.subjects[subject] = Remembered(state, at, at if lasts else lately, tuple(down))

    def bad_at(self, subject: Subject) -> float | None:
        """Return the last look that found a subject bad; None when none did lately."""
        known = self.subjects.get(subject)
        return None if known is None else known.bad_at

    def down(self, subject: Subject) -> tuple[str, ...]:
        """Return the streams that were down for want of a subject at the last look that judged it."""
        known = self.subjects.get(subject)
        return () if known is None else known.down

    def told(self, subject: Subject, state: IncidentState) -> None:
        """Keep who was told of a subject."""
        self.subjects[subject] = replace(self.subjects[subject], state=state)

    def open_incidents(self) -> dict[Subject, str]:
        """Return the ids of the open incidents."""
        return {subject: each.state.incident.id for subject, each in self.subjects.items() if each.state.incident}

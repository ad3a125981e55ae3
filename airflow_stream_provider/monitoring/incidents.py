"""What is wrong with a stream, look after look: pure. A trouble is told when it opens and when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_stream_provider.lag.formatting import duration
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lag.streaks import Incident, Streaks, incident_now


@dataclass(frozen=True)
class Symptom:
    """What one look says of one kind of trouble: a sentence for a person, and how long it must last to be told."""

    health: Health
    description: str = ""
    for_at_least: float = 0.0


@dataclass(frozen=True)
class IncidentState:
    """How it stands with one kind of trouble: the open incident, if any, and those that people (by name) know of."""

    streaks: Streaks
    incident: Incident | None = None
    told: Mapping[str, Incident] = field(default_factory=dict)
    description: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "streaks": dict(vars(self.streaks)),
            "incident": self.incident.to_json() if self.incident else None,
            "told": {who: incident.to_json() for who, incident in self.told.items()},
            "description": self.description,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> IncidentState:
        """Return it again."""
        incident = Incident.from_json(data["incident"]) if data["incident"] else None
        told = {who: Incident.from_json(known) for who, known in data["told"].items()}
        return cls(Streaks(**data["streaks"]), incident, told, data["description"])


@dataclass(frozen=True)
class Alert:
    """What people are to be told of a trouble.

    `kind`: of trouble. `incident`: the same id when it opens and when it is over; `open` tells the two apart. `since`,
    `at`: seconds since 1970. `description`: what is wrong, or was. `links`: addresses by label.

    Templates of Airflow's notifiers find it as `alert`: ``{{ alert.subject }}``, ``{{ alert.text }}``.
    """

    stream: str
    kind: str
    incident: str
    open: bool
    since: float
    at: float
    description: str
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """One line."""
        return f"{self.stream}: {self.description}" if self.open else f"{self.stream} is well again"

    @property
    def text(self) -> str:
        """The whole message, some lines of plain text."""
        lasted = duration(self.at - self.since)
        lines = (
            [self.description, f"For {lasted}."] if self.open else [f"It is over, after {lasted}: {self.description}"]
        )
        lines += [f"{label}: {address}" for label, address in self.links.items()]
        lines += [f"Look: airflow streams history {self.stream}"] if self.open else []
        return "\n".join([*lines, f"Incident: {self.incident}"])


def follow(
    stream: str, before: Mapping[str, IncidentState], symptoms: Mapping[str, Symptom], at: float
) -> dict[str, IncidentState]:
    """Return how it stands with each kind of trouble after a look; one of which nothing was found is as before."""
    after = dict(before)
    for kind, symptom in symptoms.items():
        known = before.get(kind, IncidentState(Streaks()))
        streaks = replace(known.streaks)
        streaks.add(symptom.health, at)
        incident = incident_now(f"{stream}-{kind}", known.incident, streaks, at, symptom.for_at_least)
        description = symptom.description if symptom.health is Health.FAIL else known.description
        after[kind] = IncidentState(streaks, incident, known.told, description)
    return after


def untold(
    stream: str, incidents: Mapping[str, IncidentState], at: float, people: Iterable[str]
) -> list[tuple[Alert, list[str]]]:
    """Return what some of these people are not told of yet, and who they are; of one incident its end first."""
    found = []
    people = list(people)
    for kind, trouble in incidents.items():
        present = trouble.incident
        known = {who: trouble.told.get(who) for who in people if trouble.told.get(who) != present}
        for over in dict.fromkeys(incident for incident in known.values() if incident):
            alert = Alert(stream, kind, over.id, False, over.since, at, trouble.description)
            found.append((alert, [who for who, incident in known.items() if incident == over]))
        if present is not None and known:
            found.append((Alert(stream, kind, present.id, True, present.since, at, trouble.description), list(known)))
    return found


def told(incidents: Mapping[str, IncidentState], alert: Alert, people: Iterable[str]) -> dict[str, IncidentState]:
    """Return the troubles after these people were told this."""
    known = dict(incidents[alert.kind].told)
    for who in people:
        if alert.open:
            known[who] = Incident(alert.incident, alert.since)
        else:
            known.pop(who, None)
    return {**incidents, alert.kind: replace(incidents[alert.kind], told=known)}

"""Incidents: times in which something was wrong with a stream, followed from look to look. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, TypeAdapter

from airflow_stream_provider.lag.limits import Health, Streaks


class Stored:
    """Base of dataclasses that are kept as JSON objects; fields that another version has written are ignored."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False, hide_input_in_errors=True)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        found: dict[str, Any] = self._adapter().dump_python(self, mode="json")
        return found

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return what `to_json` wrote.

        :raises ValueError: it is none.
        """
        found: Self = cls._adapter().validate_python(data)
        return found

    @classmethod
    @cache
    def _adapter(cls) -> TypeAdapter[Any]:
        return TypeAdapter(cls)


class IncidentKind(StrEnum):
    """The kinds of trouble; each has its own incidents."""

    DOWN = "down"  # no driver runs it, or its driver gives no sign of life, though it was not stopped
    LAG = "lag"  # its lag is beyond the limits
    LAG_UNKNOWN = "lag_unknown"  # its lag cannot be measured
    OFFSETS_GROUP = "offsets_group"  # its driver cannot commit to the consumer group of `offsets_group`
    FINISHED = "finished"  # its script has ended by itself; told once, and over when somebody stops or starts it
    QUERY = "query"  # a query fails again and again, waits for its checkpoint, or has lost records; others may run
    WISH = "wish"  # a wish for it does not come true without a person
    REWIND = "rewind"  # records that were to be read again are not, and no driver does it any more
    LOG = "log"  # its control log has new records that break the rules; over when none came for eight hours
    WATCH = "watch"  # the watch itself fails, and would not tell of the others
    TREND = "trend"  # something runs out: the driver's heap, a disk, a certificate, or records that wait
    UPGRADE = "upgrade"  # how an upgrade or a roll-back ended, or that it waits for a person; told once, never over
    # These are of a place that many streams need: told once for all, and no stream has an incident of its own for it.
    KAFKA = "kafka"  # the Kafka of a connection does not answer, or refuses it
    CLUSTER = "cluster"  # the Spark cluster of a connection does not answer
    CONTROL = "control"  # a control root cannot be read
    CHECKPOINTS = "checkpoints"  # the checkpoints of a control root's streams cannot be read

    @property
    def shared(self) -> bool:
        """Whether it is an incident of what many streams need, and not of one stream."""
        return self in (IncidentKind.KAFKA, IncidentKind.CLUSTER, IncidentKind.CONTROL, IncidentKind.CHECKPOINTS)


@dataclass(frozen=True)
class Symptom:
    """The finding of one look for one kind of incident.

    :param description: what is wrong, a sentence for people.
    :param for_at_least: seconds for which it must be bad before an incident opens, and good before it closes.
    :param worse: whether people who know of the incident must be told again.
    """

    health: Health
    description: str = ""
    for_at_least: float = 0.0
    worse: bool = False


@dataclass(frozen=True)
class Incident(Stored):
    """A time in which something was wrong.

    :param since: when it began, seconds since 1970.
    :param stage: grows each time that it has become so much worse that people are told again.
    """

    id: str
    since: float
    stage: int = 0

    @classmethod
    def of(cls, name: str, since: float) -> Incident:
        """Return the incident that began at this time; everyone who saw it begin gets the same id."""
        at = datetime.fromtimestamp(since, UTC)
        return cls(f"{name}-{at:%Y%m%dT%H%M%SZ}", since)


def incident_now(
    name: str, present: Incident | None, streaks: Streaks, at: float, for_at_least: float
) -> Incident | None:
    """Return the incident that is open after a look, or None.

    :param present: the incident that was open before the look.
    :param at: time of the look, seconds since 1970.
    :param for_at_least: seconds for which the looks must be bad to open an incident, and good to close it: a lag that
        wavers around its limit is one incident. An unknown look neither opens nor closes one.
    """
    if streaks.unknown is not None:
        return present
    if present is None:
        opens = streaks.bad is not None and at - streaks.bad >= for_at_least
        return Incident.of(name, streaks.bad or at) if opens else None
    closes = streaks.good is not None and at - streaks.good >= for_at_least
    return None if closes else present


@dataclass(frozen=True)
class IncidentState(Stored):
    """One kind of incident after a look.

    :param incident: the open incident; None when there is none.
    :param acknowledged: by recipient, the incident whose opening was delivered and whose end was not yet.
    :param description: what is, or was last, wrong.
    """

    streaks: Streaks = field(default_factory=Streaks)
    incident: Incident | None = None
    acknowledged: Mapping[str, Incident] = field(default_factory=dict)
    description: str = ""

    def after(self, name: str, symptom: Symptom, at: float) -> IncidentState:
        """Return the state after a look that found this symptom."""
        streaks = replace(self.streaks)
        streaks.add(symptom.health, at)
        incident = incident_now(name, self.incident, streaks, at, symptom.for_at_least)
        if symptom.worse and incident is not None and incident == self.incident:
            incident = replace(incident, stage=incident.stage + 1)
        description = symptom.description if symptom.health is Health.FAIL else self.description
        return replace(self, streaks=streaks, incident=incident, description=description)

    def acknowledge(self, recipients: Iterable[str], *, open: bool) -> IncidentState:
        """Return the state after these got the opening of the open incident, or else the end of the one they knew."""
        known = dict(self.acknowledged)
        for name in recipients:
            if open and self.incident is not None:
                known[name] = self.incident
            else:
                known.pop(name, None)
        return replace(self, acknowledged=known)


def update_incidents(
    stream: str, before: Mapping[str, IncidentState], symptoms: Mapping[IncidentKind, Symptom], at: float
) -> dict[str, IncidentState]:
    """Return the state of each kind of incident after a look; a kind without a symptom stays as it is."""
    after = dict(before)
    for kind, symptom in symptoms.items():
        known = before.get(kind, IncidentState())
        after[kind] = known.after(f"{stream}-{kind.value}", symptom, at)
    return after

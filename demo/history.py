"""What the control log says of an upgrade: who took over when, at which boundary, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record

_ENDS = frozenset({Kind.RELEASED, Kind.FAILED, Kind.FINISHED, Kind.FENCED})


class StepResult(StrEnum):
    """What became of one upgrade."""

    DEPLOYED = "deployed"
    HANDED_OVER = "handed-over"
    REFUSED = "refused"
    ROLLED_BACK = "rolled-back"


@dataclass(frozen=True)
class Change:
    """One change of holder, at `at` of the new holder's wall clock. `source` is None when nobody held before.

    `boundary`: completed or interrupted, by query; every query counts as interrupted when the source did not release.
    `clean`: the source released and needed no fence, so that no batch ran twice.
    """

    source: str | None
    to: str
    at: float
    boundary: dict[str, str] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether every query of the source ended on a finished batch."""
        return all(end == Boundary.COMPLETED.value for end in self.boundary.values())


def changes(records: Iterable[Record]) -> list[Change]:
    """Return every change of holder, oldest first."""
    found: list[Change] = []
    queries: dict[str, list[str]] = {}
    holder: str | None = None
    boundary: dict[str, str] = {}
    for record in records:
        name = record.get("incarnation")
        if record.kind == Kind.STANDBY:
            queries[name] = [query["name"] for query in record.get("queries", ())]
        elif record.kind == Kind.ACQUIRED:
            found.append(Change(source=holder, to=name, at=record.at, boundary=boundary))
            holder, boundary = name, {}
        elif record.kind == Kind.RELEASED:
            boundary = {query: end["boundary"] for query, end in record["ends"].items()}
        elif record.kind in _ENDS and name == holder and not boundary:
            boundary = dict.fromkeys(queries.get(name or "", ()), Boundary.INTERRUPTED.value)
    return found


def max_holders(records: Iterable[Record]) -> int:
    """Return the largest number of incarnations that held at one time, by the order of the log."""
    holders: set[str] = set()
    most = 0
    for record in records:
        if record.kind == Kind.ACQUIRED:
            holders.add(record["incarnation"])
        elif record.kind in _ENDS:
            holders.discard(record.get("incarnation", ""))
        most = max(most, len(holders))
    return most


def outcome(before: Sequence[Record], during: Sequence[Record]) -> StepResult:
    """Return what became of the one upgrade whose records are `during`.

    :raises StreamError: none of the four things happened; the message carries the log's own reason, if it has one.
    """
    start, end = fold(before), fold([*before, *during])
    taken = [record["incarnation"] for record in during if record.kind == Kind.ACQUIRED]
    # Refused by its own rehearsal (failed), or by the judge of it (retired).
    given_up = [record for record in during if record.kind in (Kind.FAILED, Kind.RETIRED)]
    if start.holder is None and len(taken) == 1 and end.holder == taken[0]:
        return StepResult.DEPLOYED
    if start.holder is not None and end.holder is not None:
        if not taken and given_up:
            return StepResult.REFUSED
        if taken and deployment_of(end.holder) != deployment_of(start.holder):
            return StepResult.HANDED_OVER
        if len(taken) > 1:
            return StepResult.ROLLED_BACK
    reasons = "; ".join(record["reason"] for record in given_up)
    raise StreamError(
        f"The upgrade was neither carried out, refused nor rolled back: "
        f"holder {start.holder} before, {end.holder} after. {reasons}".strip(),
        next_step="Look at the DAG run's tasks in Airflow, and at the driver's log.",
    )

"""Read from the control log what happened in a step: changes of holder, batch boundaries, the result."""

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
    """The result of one step."""

    ADOPTED = "adopted"
    DEPLOYED = "deployed"
    HANDED_OVER = "handed-over"
    REFUSED = "refused"
    ROLLED_BACK = "rolled-back"


@dataclass(frozen=True)
class Change:
    """One change of holder.

    :param source: the old holder, or the job that was adopted; None if no driver held the stream.
    :param to: the new holder.
    :param at: when it acquired the stream, in seconds since 1970 by its own clock.
    :param boundary: ``completed`` or ``interrupted``, by query. If the old holder did not release the stream, as no job
        without a stream does, all its queries count as interrupted.
    """

    source: str | None
    to: str
    at: float
    boundary: dict[str, str] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether all queries of the old holder ended with a committed batch, so that no batch ran twice."""
        return all(end == Boundary.COMPLETED.value for end in self.boundary.values())


def changes(records: Iterable[Record]) -> list[Change]:
    """Return all changes of holder, oldest first."""
    found: list[Change] = []
    queries: dict[str, list[str]] = {}
    holder: str | None = None
    boundary: dict[str, str] = {}
    adopted: dict[str, str] = {}  # jobs, by request
    for record in records:
        name = record.get("incarnation")
        if record.kind == Kind.STANDBY:
            queries[name] = [query["name"] for query in record.get("queries", ())]
        elif record.kind == Kind.REQUESTED and record.get("evidence"):
            adopted[record["request"]] = record["evidence"].get("job", "the old job")
        elif record.kind == Kind.ACQUIRED:
            if record["request"] in adopted:
                holder = adopted[record["request"]]
                boundary = dict.fromkeys(queries.get(name, ()), Boundary.INTERRUPTED.value)
            found.append(Change(source=holder, to=name, at=record.at, boundary=boundary))
            holder, boundary = name, {}
        elif record.kind == Kind.RELEASED:
            boundary = {query: end["boundary"] for query, end in record["ends"].items()}
        elif record.kind in _ENDS and name == holder and not boundary:
            boundary = dict.fromkeys(queries.get(name or "", ()), Boundary.INTERRUPTED.value)
    return found


def max_holders(records: Iterable[Record]) -> int:
    """Return the largest number of incarnations that held the stream at the same time, by the order of the log."""
    holders: set[str] = set()
    most = 0
    for record in records:
        if record.kind == Kind.ACQUIRED:
            holders.add(record["incarnation"])
        elif record.kind in _ENDS:
            holders.discard(record.get("incarnation", ""))
        most = max(most, len(holders))
    return most


def result(before: Sequence[Record], during: Sequence[Record]) -> StepResult:
    """Return the result of one step.

    :param before: the records before the step.
    :param during: the records of the step.
    :raises StreamError: the records show none of the results. The message has the reason from the log, if any.
    """
    start, end = fold(before), fold([*before, *during])
    taken = [record["incarnation"] for record in during if record.kind == Kind.ACQUIRED]
    # Refused because its rehearsal failed (failed), or because of its results (retired).
    given_up = [record for record in during if record.kind in (Kind.FAILED, Kind.RETIRED)]
    if start.holder is None and len(taken) == 1 and end.holder == taken[0]:
        return StepResult.ADOPTED if changes(during)[0].source else StepResult.DEPLOYED
    if start.holder is not None and end.holder is not None:
        if not taken and given_up:
            return StepResult.REFUSED
        if taken and deployment_of(end.holder) != deployment_of(start.holder):
            return StepResult.HANDED_OVER
        if len(taken) > 1:
            return StepResult.ROLLED_BACK
    reasons = "; ".join(record["reason"] for record in given_up)
    raise StreamError(
        f"The upgrade was neither carried out nor refused nor rolled back: the holder was {start.holder} before and is "
        f"{end.holder} now. {reasons}".strip(),
        next_step="Read the logs of the DAG run's tasks in Airflow, and the drivers' logs.",
    )

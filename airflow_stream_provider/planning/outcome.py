"""Say in a line how an upgrade, a roll-back or another operation ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.lifecycle.rewind import at
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation

# By rule 3 (docs/architecture.md): the old holder has let go of the checkpoint between two batches.
_CLEAN = "Nothing lost, nothing doubled (by rule, not counted): it changed hands between two batches."
# By rule 6: the next driver runs the batch again that was not committed.
_INSIDE = (
    "Nothing lost; a sink that is not idempotent may have the last batch of the old driver twice (by rule, not "
    "counted): that one did not stop between two batches."
)


def went(handed: Mapping[str, Any]) -> str:
    """Return the gap of a change of holder, and what was lost and doubled, with how that is known.

    :param handed: XCom of HandOverOperator or RollBackOperator; empty when the holder was not changed.
    """
    if not handed.get("request"):
        return ""
    clean = handed.get("boundary") == Boundary.COMPLETED.value
    return f"Gap: {_gap(handed) or 'not measured'}. {_CLEAN if clean else _INSIDE}"


def _gap(handed: Mapping[str, Any]) -> str:
    gaps = handed.get("gap_seconds") or {}
    return ", ".join(f"{query} {seconds:.1f} s" for query, seconds in sorted(gaps.items()))


def read_again(to: float, said: str) -> str:
    """Return that a release was to read records again on purpose, which `went` does not speak of.

    :param to: since when, in seconds since 1970.
    :param said: the outcome by the holder's heartbeat; empty: it is not known.
    """
    return (
        f"But it was to read records since {at(to)} again, which a sink has twice then, unless it tells by their "
        f"contents. {said or 'Whether it did, the log of its driver says.'}"
    )


def took_over(version: str, before: str, handed: Mapping[str, Any], kept: str) -> str:
    """Return the line of an upgrade that went well.

    :param before: version of the release that held before; empty when none did.
    :param kept: what `kept_warm` says.
    """
    if not before:
        return f"Release {version} runs; no release ran before."
    return " ".join(filter(None, (f"Release {version} has taken over from release {before}.", went(handed), kept)))


def kept_warm(version: str, until: float | None) -> str:
    """Return how long a release stays warm for a roll-back of seconds.

    :param until: seconds since 1970; None: its driver has ended.
    """
    if until is None:
        return f"Release {version} is not warm: a roll-back starts it again."
    return f"Release {version} stays warm until about {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC."


def rolled_back(handed: Mapping[str, Any]) -> str:
    """Return the line of a roll-back that went well.

    :param handed: XCom of RollBackOperator.
    """
    return " ".join(filter(None, (f"Rolled back to release {handed.get('version', '')}.", went(handed))))


def told(foreseen: Foreseen, reason: str, results: Mapping[Operation, Mapping[str, Any]], holder: str) -> str:
    """Return the operation, its reason, its outcome, and the holder.

    :param results: of the operators, by part; empty when nothing was to be done.
    :param holder: the sentence on the holder.
    """
    if foreseen.refused:
        return f"Refused to {foreseen.operation}: {foreseen.refused}"
    if foreseen.done:
        return f"Nothing to do ({foreseen.operation}): {foreseen.done}"
    went = " ".join(_went(part, dict(results.get(part, {}))) for part in foreseen.parts)
    was = f"It was {foreseen.held}." if foreseen.held and foreseen.holds else ""
    begun = Operation.UPGRADE in foreseen.parts and not results.get(Operation.UPGRADE, {}).get("state")
    past = f"Asked to {foreseen.operation}" if begun else foreseen.operation.past
    said = (f"{past}: {reason.rstrip('.')}.", went, was, holder)
    return " ".join(" ".join(each.split()) for each in said if each.strip())


def _went(part: Operation, result: dict[str, Any]) -> str:
    if part in (Operation.STOP, Operation.RETIRE):
        clean = result.get("boundary") == Boundary.COMPLETED.value
        return "Every query stopped at a batch boundary: nothing is read again." if clean else ""
    if part is Operation.UPGRADE:
        run, state = result.get("run", ""), result.get("state", "")
        return f"Run {run} ended well." if state else f"Run {run} does it, and goes on by itself." if run else ""
    if part is Operation.FENCE:
        fenced = ", ".join(result.get("fenced") or ())
        return f"Confirmed dead: {fenced}." if fenced else "Nothing was fenced: the driver had ended."
    if part is Operation.ABORT:
        return f"Ended: {result['retired']}." if result.get("retired") else "Nothing was ended: it had ended already."
    return f"Gap: {_gap(result)}." if _gap(result) else ""

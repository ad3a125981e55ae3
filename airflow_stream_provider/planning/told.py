"""Tell a person in a line how an operation by hand ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation


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
    if part is Operation.STOP:
        if not result.get("stopped"):
            return "Nothing was stopped: somebody has started the stream since."
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
    gaps = result.get("gap_seconds") or {}
    gap = ", ".join(f"{query} {seconds:.1f} s" for query, seconds in sorted(gaps.items()))
    return f"Gap: {gap}." if gap else ""

"""What is read again from the sources after a fence, or by the next holder, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.lifecycle.due_rewind import due_rewind
from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.lifecycle.rewind import at
from airflow_stream_provider.lifecycle.state import HoldEnd
from airflow_stream_provider.planning.kept_offsets import kept_offsets
from airflow_stream_provider.planning.snapshot import Snapshot

NOTHING = "nothing, as every query stops at a batch boundary."
NO_CHANGE = "nothing, as the holder goes on."


def after_fence(snapshot: Snapshot, driver: str) -> str:
    """Return what is read again once this driver is killed, or was."""
    beat = snapshot.heartbeats.get(driver)
    known = [(query.name, query.batch + 1) for query in (beat.queries if beat else ()) if query.batch is not None]
    batches = ", ".join(f"batch {batch} of {name}" for name, batch in known)
    which = f" (by its last heartbeat {batches}, or a later one)" if batches else ""
    return (
        f"the batch that is cut off, if one is under way{which}, as a whole and with the same records. What it has "
        "written already is there twice then, unless the sink skips batches that it has seen." + _owed(snapshot, driver)
    )


def _owed(snapshot: Snapshot, driver: str) -> str:
    """Return what a driver was to read again, as a person had asked, and is not known to have gone back for."""
    beat, due = snapshot.heartbeats.get(driver), due_rewind(snapshot.state, driver)
    if due is None or due.owed or (beat is not None and beat.rewind):
        return ""
    return f" So are the records since {at(due.wanted.to)} that {due.mark} was to read again, unless it had gone back."


def next_start(snapshot: Snapshot) -> str:
    """Return what the next holder reads again after the present one is lost, or while there is none."""
    state, last = snapshot.state, snapshot.state.last_holder
    if state.must_fence:
        return after_fence(snapshot, state.must_fence[0])
    if last is None:
        return "nothing by this stream, as no driver has held it; it goes on from a checkpoint that is there already."
    whole = Boundary.COMPLETED.value
    # Fields of other authors may be anything; see `fold`.
    ends = [end for end in state.ends.values() if isinstance(end, Mapping)]
    clean = bool(ends) and all(end.get("boundary", whole) == whole for end in ends)
    if state.holder is not None or not clean:
        return after_fence(snapshot, last)
    if state.last_end is HoldEnd.FAILED:
        return "the batch that failed, if one did, as a whole and with the same records."
    return "nothing, as every query has stopped at a batch boundary."


def kept(snapshot: Snapshot) -> str:
    """Return which of the next records Kafka has deleted, or is about to; empty: none, or it was not asked."""
    report, last = snapshot.lag, snapshot.state.last_driver
    return "" if report is None or last is None else str(kept_offsets(report, last.queries))

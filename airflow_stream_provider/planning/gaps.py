"""Measure a change of holder: the gap between commits, and where the old holder stopped."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.planning.snapshot import Snapshot


def gaps(snapshot: Snapshot, acquired: Record) -> dict[str, float]:
    """Return, by query, the seconds from the last commit before this change of holder to the first one after it.

    By the times of the commit files, so only where this machine can read the checkpoints. A query without a commit
    before or after is left out.
    """
    # Imported here: every DAG file imports the plans, and parsing needs no reader of checkpoints.
    from airflow_stream_provider.checkpoint.read import read as read_checkpoint

    found = {}
    for query in snapshot.state.incarnations[acquired["incarnation"]].queries:
        try:
            commits = read_checkpoint(query.get("checkpoint", "")).commits
        except CheckpointError:
            continue
        before = [at for _, at in commits if at <= acquired.at]
        after = [at for _, at in commits if at > acquired.at]
        if before and after:
            found[query["name"]] = round(min(after) - max(before), 3)
    return found


def boundary(snapshot: Snapshot, request: str) -> dict[str, Any]:
    """Return how the old holder stopped for a request: `boundary`, and `ends` with the last batch by query; or {}."""
    released = (r for r in snapshot.records if r.kind == Kind.RELEASED and r.get("request") == request)
    record = next(released, None)
    return {} if record is None else {"boundary": record["boundary"], "ends": record.get("ends", {})}

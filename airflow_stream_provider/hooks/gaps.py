"""Measure the gap that a change of holder left between commits."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.snapshot import Snapshot


def gaps(snapshot: Snapshot, acquired: Record) -> dict[str, float]:
    """Return, by query, the seconds from the last commit before this change of holder to the first one after it.

    By the times of the commit files: where this machine cannot read the checkpoint, as the driver that took over has
    read them. A query without a known commit before or after is left out.
    """
    # Imported here: every DAG file imports the operators, and parsing needs no reader of checkpoints.
    from airflow_stream_provider.checkpoint.read import read as read_checkpoint

    found = {}
    beat = snapshot.heartbeats.get(acquired["incarnation"])
    # Both by the driver's clock: a gap of an earlier hold is another one.
    told = beat if beat is not None and beat.started_at is not None and beat.started_at >= acquired.at else None
    for query in snapshot.state.incarnations[acquired["incarnation"]].queries:
        try:
            commits = read_checkpoint(query.get("checkpoint", "")).commits
        except CheckpointError:
            progress = told.query(query["name"]) if told else None
            if progress is not None and progress.gap_seconds is not None:
                found[query["name"]] = progress.gap_seconds
            continue
        before = [at for _, at in commits if at <= acquired.at]
        after = [at for _, at in commits if at > acquired.at]
        if before and after:
            found[query["name"]] = round(min(after) - max(before), 3)
    return found

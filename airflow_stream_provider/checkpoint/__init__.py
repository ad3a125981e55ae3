"""Spark's checkpoint on disk: read it, clone it, say whose it is. Plain files, no JVM."""

from __future__ import annotations

from airflow_stream_provider.checkpoint.clone import Clone, StateTooLarge, clone_logs, clone_state, scratch
from airflow_stream_provider.checkpoint.location import check_location, local_path
from airflow_stream_provider.checkpoint.logs import LogEnds, boundary
from airflow_stream_provider.checkpoint.owner import Owner, check_owner, claim, moving, owner, refuse_moving
from airflow_stream_provider.checkpoint.read import Checkpoint, Operator, Source, merged, read, recent

__all__ = [
    "Checkpoint",
    "Clone",
    "LogEnds",
    "Operator",
    "Owner",
    "Source",
    "StateTooLarge",
    "boundary",
    "check_location",
    "check_owner",
    "claim",
    "clone_logs",
    "clone_state",
    "local_path",
    "merged",
    "moving",
    "owner",
    "read",
    "recent",
    "refuse_moving",
    "scratch",
]

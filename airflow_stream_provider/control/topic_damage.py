"""Say that a control topic has lost a part of its log, or has another log than before; see `damage`."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced


def lost(stream: str, seq: int) -> ControlLogDamaged:
    """Return the error for a record that a writer had read and that is not there."""
    return ControlLogDamaged(
        f"Record {seq} of the control log of {stream} is missing, though somebody has read it. Without it the log "
        "means something else.",
        next_step="A part of its topic is lost, by retention, an unclean leader election or a broker's disk, or "
        "drivers of a topic from before still write to a new one. See 'A damaged control log' in docs/operations.md.",
        seq=seq,
    )


def another(stream: str, seq: int) -> ControlLogReplaced:
    """Return the error for a record that a writer had read as another one."""
    return ControlLogReplaced(
        f"Record {seq} of the control log of {stream} is another one than was read before: its topic was put back from "
        "a copy, or lost its end.",
        next_step="Make sure that no driver of the stream from before runs on; then clear the task. See "
        "docs/operations.md.",
        seq=seq,
    )

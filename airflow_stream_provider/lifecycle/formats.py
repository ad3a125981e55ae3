"""Which format each kind of record came with, and the one gate before a newer one is written.

A driver runs for months on the runtime that was published with its release, and leaves out of the state what it does
not know. So no process writes a kind that a driver that may read it does not know. Which format a driver knows is in
the `declared` record of its deployment, which is there before it starts; tests/fixtures/format-1/README.md has
the rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.lifecycle.errors import RuleBroken
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState

# A new kind has the next number. A kind that is here is never changed, nor what its fields mean: what would mean
# something else is a new kind.
FORMAT_OF: Mapping[str, int] = {
    Kind.DECLARED: 1,
    Kind.SUBMITTED: 1,
    Kind.STANDBY: 1,
    Kind.REQUESTED: 1,
    Kind.READY: 1,
    Kind.RELEASED: 1,
    Kind.ACQUIRED: 1,
    Kind.FENCING: 1,
    Kind.FENCED: 1,
    Kind.ABORTED: 1,
    Kind.FAILED: 1,
    Kind.FINISHED: 1,
    Kind.RETIRED: 1,
    Kind.WANTED: 1,
    Kind.ENDING: 1,
}
# The features of this version, announced for the runtime that it publishes.
FORMAT = max(FORMAT_OF.values())


def check_format(state: StreamState, record: Record) -> None:
    """Check that every driver that may read a record knows its kind: those of the deployments that have not ended.

    Of appends only. Readers take what is in the log, each by what it knows.

    :raises RuleBroken: one does not; nothing was written.
    """
    needed = FORMAT_OF.get(record.kind, 1)
    older = [d for d in state.deployments.values() if not d.ended and d.release.format < needed]
    if older:
        raise RuleBroken(
            f"{record.kind!r} refused by rule 'known-to-all': it came with format {needed}, and "
            f"{older[0].id} (release {older[0].release.version}) knows format {older[0].release.format} only.",
            next_step="Deploy that release anew with this version, or retire it, then try again.",
            rule="known-to-all",
            kind=record.kind,
            deployments=[d.id for d in older],
        )

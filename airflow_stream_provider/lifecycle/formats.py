"""Which format each kind of record came with, and the one gate before a newer one is written.

A driver runs for months on the runtime that was published with its release, and leaves out of the state what it does
not know. So no process writes a kind that a driver that may read it does not know. Which format a driver knows is in
the `declared` record of its deployment, which is there before it starts; docs/compatibility.md has the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_stream_provider.lifecycle.errors import RuleBroken
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.release import Release
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
    Kind.STOPPED: 1,
    Kind.ENDING: 3,
}
# An optional field that the driver of a deployment must not leave out, in its `declared`.
FORMAT_OF_DECLARED: Mapping[str, int] = {"rewind": 2}
# The features of this version, announced for the runtime that it publishes.
FORMAT = max(*FORMAT_OF.values(), *FORMAT_OF_DECLARED.values())


def check_format(state: StreamState, record: Record) -> None:
    """Check that every driver that may read a record knows its kind: those of the deployments that have not ended.

    And that the driver of a deployment that is declared obeys all that is said of it.

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
    asked = [name for name in FORMAT_OF_DECLARED if record.get(name) is not None]
    if record.kind == Kind.DECLARED and asked:
        check_release(Release.from_json(record["release"]), asked)


def check_release(release: Release, asked: Iterable[str]) -> None:
    """Check that the runtime of a release obeys these fields of `declared`.

    :raises RuleBroken: it would leave one out without a word.
    """
    for name in asked:
        if FORMAT_OF_DECLARED[name] > release.format:
            raise RuleBroken(
                f"{Kind.DECLARED!r} with `{name}` refused by rule 'known-to-all': it came with format "
                f"{FORMAT_OF_DECLARED[name]}, and the runtime of that release knows format {release.format} only.",
                next_step="Upgrade the stream with this version of the provider first: its release gets a newer "
                "runtime, though nothing else of it changes. Then ask again.",
                rule="known-to-all",
                kind=Kind.DECLARED,
            )

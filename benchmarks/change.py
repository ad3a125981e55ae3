"""One change of holder on the stack: make it, and say where its time went."""

from __future__ import annotations

import time
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.record import Kind
from devstack.commits import crossing
from devstack.drivers import wait_for
from devstack.stack_stream import QUERIES, StackStream


@dataclass(frozen=True)
class Change:
    """A change of holder; times in seconds since 1970.

    :param began: before it was requested.
    :param asked_to_ready: seconds from the request to the standby's `ready`.
    :param ready_to_release: seconds from there to the holder's `released`: it finishes its batch.
    :param release_to_start: seconds from there to the start of the queries in the new holder.
    :param start_to_commit: seconds from there to the new holder's first commit; of the queries the slower.
    :param acquired_at: when the new holder acquired.
    :param crossing: seconds from the last commit of the old holder to the first of the new one, by query.
    """

    began: float
    asked_to_ready: float
    ready_to_release: float
    release_to_start: float
    start_to_commit: float
    acquired_at: float
    crossing: dict[str, float]


STEPS = ("asked_to_ready", "ready_to_release", "release_to_start", "start_to_commit")


def change(stream: StackStream, to: str, commits: int = 3) -> Change:
    """Hand over to a standby, or appoint it, and wait until each query has made so many commits in it."""
    began = time.time()
    stream.hand_over(to)
    stream.settle(commits)
    record = {r.kind: r.at for r in stream.log.records() if r.at >= began}
    acquired = record[Kind.ACQUIRED]
    started = float(str(wait_for("the start", lambda: _started(stream, to, began))))
    seen = stream.watcher.commits
    first = max(min(at for at in seen[query].values() if at > acquired) for query in QUERIES)
    # After a stop nobody answers or releases.
    ready = record.get(Kind.READY, acquired)
    released = record.get(Kind.RELEASED, acquired)
    return Change(
        began=began,
        asked_to_ready=ready - record[Kind.REQUESTED],
        ready_to_release=released - ready,
        release_to_start=started - released,
        start_to_commit=first - started,
        acquired_at=acquired,
        crossing={query: crossing(seen[query], acquired) or 0.0 for query in QUERIES},
    )


def _started(stream: StackStream, incarnation: str, since: float) -> float | None:
    """When a driver has started its queries since then: its heartbeat tells it up to a second later."""
    at = stream.beat(incarnation).started_at
    return at if at is not None and at >= since else None

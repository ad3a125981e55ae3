"""Decide from one look whether `recover` has something to do for a stream now. Pure; it waits for nothing."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.begun import hindrance, orphaned, seen_to
from airflow_stream_provider.planning.recover import job_of_interest, next_try
from airflow_stream_provider.planning.recovery_decision import RecoveryAction, coming_up, recovery_step
from airflow_stream_provider.planning.snapshot import Snapshot

# Steps that are done at once, and need no cluster.
_DONE_AT_ONCE = (RecoveryAction.REQUEST, RecoveryAction.ABORT)
# Steps that need a cluster that answers: while it does not, a run would wait in vain.
_NEED_THE_CLUSTER = (RecoveryAction.FENCE, RecoveryAction.FAIL, RecoveryAction.DECLARE)


def revival_is_due(snapshot: Snapshot, alive: Mapping[str, bool | None], *, cluster_answers: bool) -> bool:
    """Return whether the stream needs a run that brings it back.

    Not for one that was stopped, has finished or was never started, nor while an upgrade or a hand-over goes on in good
    order, nor in the pause before the next try of a release that keeps failing. Such a run decides anew from what it
    sees itself, so one too many does no harm.

    :param alive: as for `recovery_step`, but False means only that a driver seems to be lost.
    :param cluster_answers: whether the stream's cluster answered this look.
    """
    state = snapshot.state
    if state.open_request is None and hindrance(state):
        # Only the cluster's word about the job lets somebody go on.
        return bool(job_of_interest(snapshot)) and cluster_answers and not seen_to(state, snapshot.at)
    step = recovery_step(state, alive, snapshot.at, free_since=snapshot.free_since)
    if step.action in _NEED_THE_CLUSTER and not cluster_answers:
        return False
    if step.action is RecoveryAction.DECLARE:
        return next_try(snapshot)[1] == 0.0
    if step.action is not RecoveryAction.WAIT:
        return True
    if state.open_request is not None or state.phase not in (StreamPhase.DOWN, StreamPhase.FAILED):
        return False
    if snapshot.at < state.until:
        return False
    # The stream has no holder, and no driver was asked to hold: a standby without a known sign of life must be looked
    # at more closely, and a deployment that was not submitted has lost the task that declared it.
    unknown = any(live_standby(state, i.id) and alive.get(i.id) is None for i in state.standbys())
    orphans = any(orphaned(deployment, snapshot.at) for deployment in coming_up(state))
    return unknown or (orphans and cluster_answers)


def due_beside_another(snapshot: Snapshot, alive: Mapping[str, bool | None]) -> bool:
    """Return whether such a run is needed though one is under way.

    That one may wait for a cluster that does not answer, or for a driver that does not come up, and look at nothing
    else for as long. Meanwhile a driver that lives may be appointed, or a request ended, without either.

    :param alive: as for `revival_is_due`, which is true then, too.
    """
    # A look reads no records, and does not know for how long the driver of the last holder has not come up again: that
    # is for the run which is under way, and for the one after it.
    since = snapshot.free_since or snapshot.at
    step = recovery_step(snapshot.state, alive, snapshot.at, free_since=since)
    return step.action in _DONE_AT_ONCE

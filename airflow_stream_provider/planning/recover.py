"""Bring back a stream that lost its holder: the decision of `recovery_step`, as steps of an operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import Deployment, IncarnationState, StreamPhase, StreamState
from airflow_stream_provider.planning.begun import confirmed, hindrance, left_to_its_run, orphaned, seen_to
from airflow_stream_provider.planning.descent import family
from airflow_stream_provider.planning.fence import fence, fence_first
from airflow_stream_provider.planning.recovery_decision import (
    RecoveryAction,
    coming_up,
    is_late,
    recovery_step,
    release_to_run,
)
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import declare_again, stand_by
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Skip, Step, TaskIdentity, Wait
from airflow_stream_provider.planning.take_over import ask, follow
from airflow_stream_provider.planning.waits import WaitOutcome

# A release that keeps failing is declared again after 1, 2, 4, 5, 5 … minutes, as often as it takes: an outage may be
# long. Tries older than WINDOW_SECONDS do not count, nor those up to a holder that has proven itself. Those that failed
# and those whose drivers were lost are counted apart: a machine that dies says nothing of the release.
WINDOW_SECONDS = 3600.0
PAUSE_SECONDS = 60.0
MAX_PAUSE_SECONDS = 300.0
# A holder that has failed by itself so soon, though it had committed, has proven nothing: it may fail so each time.
GOOD_RUN_SECONDS = MAX_PAUSE_SECONDS


def recover(snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None, before: Mapping[str, int]) -> Step:
    """Return the next step that brings the stream back: Done when a living driver holds, Skip when nothing is due.

    Several watches may do this at the same time and be killed at any moment: each step is decided from the log and
    written only if the log has not changed since.

    :param before: counters of the heartbeats at an earlier look; a driver whose counter has grown since is alive.
    """
    state = snapshot.state
    alive: dict[str, bool | None] = {
        name: True
        for name, counter in before.items()
        if name in state.incarnations and snapshot.counter(name) > counter
    }
    alive.update(SignsOfLife.found(outcome, snapshot))
    first = fence_first(snapshot, outcome)
    if first is not None:
        return first
    coming = coming_up(state)
    alive.update({d.id: False for d in coming if d.id in snapshot.drivers and snapshot.drivers[d.id].out_of_sight})
    gone = bool(_confirmed_now(snapshot))
    step = recovery_step(state, alive, snapshot.at, free_since=snapshot.free_since, job_gone=gone)
    if step.action is RecoveryAction.FENCE:
        return fence(snapshot, step.subject, outcome, step.reason)
    if step.action is RecoveryAction.ABORT:
        return Append(Kind.ABORTED, {"request": step.subject, "reason": step.reason})
    if step.action is RecoveryAction.REQUEST:
        return _appoint(snapshot, identity, step.subject, step.reason)
    if step.action is RecoveryAction.FAIL:
        return Append(Kind.FAILED, {"deployment": step.subject, "reason": step.reason, "error": ""})
    if step.action is RecoveryAction.DECLARE:
        return _again(snapshot, identity, state.deployments[step.subject], step.reason)
    if state.holder is None and state.open_request is None:
        why = hindrance(state, gone=gone)
        if why:
            return Skip(why)
        if left_to_its_run(state, snapshot.at) and not coming:
            return Skip("It was stopped to be started again, and that is under way.")
    return _look_closer(snapshot, identity, outcome, alive, coming)


def _look_closer(
    snapshot: Snapshot,
    identity: TaskIdentity,
    outcome: WaitOutcome | None,
    alive: Mapping[str, bool | None],
    coming: Sequence[Deployment],
) -> Step:
    """Nothing is due by what is known: find out whether the drivers live, and bring up what is on its way."""
    state = snapshot.state
    watched: tuple[str, ...]
    if state.open_request is not None:
        return follow(snapshot, state.open_request, outcome)
    if state.holder is not None:
        watched = (state.holder,)
    elif state.phase in (StreamPhase.DOWN, StreamPhase.FAILED):
        watched = tuple(i.id for i in state.standbys() if live_standby(state, i.id))
    else:
        return Skip(f"Nobody is to run it (it is {state.phase.value}).")
    if any(alive.get(name) is None for name in watched):
        # For all at once: a plan forgets the finding of a wait after the next one, and two waits for a part each would
        # follow each other for ever.
        counters = {name: snapshot.counter(name) for name in watched}
        return Wait(SignsOfLife(counters, snapshot.lease(watched)))
    if state.holder is None and coming:
        return _bring_up(snapshot, identity, outcome, coming)
    spare = next(_spare(snapshot, identity), None) if state.holder is not None else None
    if spare is not None:
        return Append(Kind.RETIRED, {"deployment": spare, "reason": f"It is not needed: {snapshot.holding} holds."})
    return Done({"stream": snapshot.stream, "holder": snapshot.holding, "phase": state.phase.value})


def _bring_up(
    snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None, coming: Sequence[Deployment]
) -> Step:
    """Submit a deployment that no other task is about to submit, then wait for the newest of the release to run: any
    other one may hang.

    Where that one is on its way, and not late, no second driver of its release is submitted.
    """
    wanted = release_to_run(snapshot.state, snapshot.at)
    first, *others = sorted(coming, key=lambda each: (each.release.hash == wanted, each.declared.seq), reverse=True)
    on_its_way = first.submission and not is_late(snapshot.state, first, snapshot.at, snapshot.free_since)
    for deployment in (first, *others):
        if deployment is not first and on_its_way and deployment.release.hash == first.release.hash:
            continue
        mine = not deployment.submission and _by_watch(snapshot.declared(deployment.id), identity)
        if mine or orphaned(deployment, snapshot.at):
            # The task that declared it may submit it at the same moment; of two submissions one is killed.
            return stand_by(snapshot, deployment.id, outcome)
    if not first.submission:
        return Skip(f"{first.id} is about to be submitted.")
    return stand_by(snapshot, first.id, outcome)


def _spare(snapshot: Snapshot, identity: TaskIdentity) -> Iterator[str]:
    """Yield deployments that were declared to bring the stream back and are not needed: another driver came to hold
    first.

    A roll-back's is needed while what it rolls back from holds.
    """
    state = snapshot.state
    for deployment in snapshot.live_deployments():
        declared = snapshot.declared(deployment)
        bad = declared.get("instead_of")
        needed = bad and snapshot.holding in family(state, bad)
        late = declared.get("again") and declared.seq < state.held_from and not needed
        if not state.has_held(deployment) and (late or _by_watch(declared, identity)):
            yield deployment


def _appoint(snapshot: Snapshot, identity: TaskIdentity, standby: str, why: str) -> Step:
    tries = sum(request.by == identity.by for request in snapshot.state.requests.values())
    job = snapshot.state.job
    evidence = (job.gone if job is not None else {}) or _confirmed_now(snapshot)
    return ask(snapshot, identity.request("recover", standby, tries), standby, why, evidence=evidence)


def _again(snapshot: Snapshot, identity: TaskIdentity, last: Deployment, why: str) -> Step:
    """Declare the release again, unless a recent try has failed: then wait longer after each."""
    release, again = last.release, identity.deployment(snapshot.stream, last.release.version)
    tried = snapshot.state.deployments.get(again)
    if tried is not None:
        ended = tried.ended.value if tried.ended else "is not ready"
        return GiveUp(
            HandOverFailed(
                f"Release {release.version} was started again and {ended}: {snapshot.why_ended(again)} "
                f"{snapshot.holder_sentence}",
                next_step="The watch tries again, with growing pauses. Correct the release, then upgrade to it.",
                deployment=again,
            ),
            log_of=snapshot.log_of_failed(again),
        )
    tries, left = next_try(snapshot)
    if left > 0:
        return Skip(
            f"It was started {tries} times within an hour and failed each time. The next try comes in "
            f"{left:.0f} s. {snapshot.holder_sentence}"
        )
    return declare_again(snapshot, again, last.id, why)


def next_try(snapshot: Snapshot) -> tuple[int, float]:
    """Return how often the release was declared again without success within an hour, and how many seconds to wait now.

    Those count that ended as the last one did: by an error, or because its driver was lost. A deployment that a
    roll-back has declared again is no such try, nor one of a machine whose clock is far ahead.
    """
    now, proof, state = snapshot.at, _last_proof(snapshot), snapshot.state
    declared = [d.declared for d in state.deployments.values() if d.declared.get("again")]
    earliest, latest = now - WINDOW_SECONDS, now + MAX_PAUSE_SECONDS
    tries = [r for r in declared if not r.get("instead_of") and earliest < r.at <= latest and r.seq > proof]
    if not tries:
        return 0, 0.0
    last = tries[-1]
    lost = _was_lost(state, last["deployment"])
    alike = sum(_was_lost(state, r["deployment"]) == lost for r in tries)
    wait = min(PAUSE_SECONDS * 2 ** (alike - 1), MAX_PAUSE_SECONDS)
    return alike, max(0.0, last.at + wait - now)


def _was_lost(state: StreamState, deployment: str) -> bool:
    """Whether a deployment ended with its machine or cluster: a driver of it was fenced, and none has failed."""
    ends = {driver.state for driver in state.of_deployment(deployment)}
    return IncarnationState.FENCED in ends and IncarnationState.FAILED not in ends


def _last_proof(snapshot: Snapshot) -> int:
    """Return the number of the record that declared the last holder, if all of its queries have committed; else 0.

    Not if it has failed by itself within GOOD_RUN_SECONDS of its start, as its last heartbeat tells. Not if only some
    have: a query that fails each time would be tried without a pause because of another one. So one without input
    proves nothing, and the pauses stay. Its `batch` is no proof, either: an earlier driver's, when idle.
    """
    last = snapshot.state.last_holder
    announced = snapshot.state.incarnations[last].queries if last else ()
    if last is None or not announced:
        return 0
    beat = snapshot.heartbeats.get(last)
    ran = beat.at - beat.started_at if beat is not None and beat.started_at is not None else GOOD_RUN_SECONDS
    if snapshot.state.incarnations[last].state is IncarnationState.FAILED and ran < GOOD_RUN_SECONDS:
        return 0
    return snapshot.declared(deployment_of(last)).seq if snapshot.has_committed(last) else 0


def _by_watch(record: Record, identity: TaskIdentity) -> bool:
    """Whether a run of this watch declared a deployment by this record."""
    return record.kind == Kind.DECLARED and record.by.startswith(f"airflow:{identity.dag_id}/")


def _confirmed_now(snapshot: Snapshot) -> Mapping[str, Any]:
    """Return the cluster's word of this look that the job is gone which is to be followed; empty: there is none."""
    found = snapshot.job
    return confirmed(found) if found is not None and found.gone and found.id == job_of_interest(snapshot) else {}


def job_of_interest(snapshot: Snapshot) -> str:
    """Return the job that `recover` asks the cluster about: it was to be ended, and may run still. Empty: none."""
    job = snapshot.state.job
    return "" if job is None or job.gone or job.doubt else job.id


def drivers_of_interest(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the deployments whose drivers `recover` asks the cluster about: those that come up for a stream without a
    holder.
    """
    return () if snapshot.state.holder else tuple(d.id for d in coming_up(snapshot.state) if snapshot.submission(d.id))


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

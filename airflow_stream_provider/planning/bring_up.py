"""Bring up a driver of the release that a wish asks for: declare, submit, wait until it stands by."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed, RehearsalRefused
from airflow_stream_provider.lifecycle.ids import deployment_id, deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.skip import skipped
from airflow_stream_provider.lifecycle.state import Deployment, DeploymentEnd, IncarnationState, StreamState
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning.choice import TRIES, Family
from airflow_stream_provider.planning.conditions import Pause, StandbyUp
from airflow_stream_provider.planning.job import follows_job
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Declare, GiveUp, Later, Step, Submit, Wait
from airflow_stream_provider.planning.waits import Ended

ASK_AGAIN_SECONDS = 10.0
# A declared deployment that was not submitted for so long has lost the task that declared it.
ORPHANED_SECONDS = 60.0
# Well below it, as clocks differ: for so long its author submits it without asking the cluster first.
FIRST_SECONDS = 10.0
# Without a holder, a release that keeps failing is started again after 1, 2, 4, 5, 5 … minutes, as often as it takes:
# an outage may be long. Tries older than WINDOW_SECONDS do not count, nor those up to a holder that has proven itself.
# Those that failed and those whose drivers were lost are counted apart: a machine that dies says nothing of a release.
WINDOW_SECONDS = 3600.0
PAUSE_SECONDS = 60.0
MAX_PAUSE_SECONDS = 300.0
# A holder that has failed by itself so soon, though it had committed, has proven nothing: it may fail so each time.
GOOD_RUN_SECONDS = MAX_PAUSE_SECONDS


def bring_up(scene: Scene, wish: Wish) -> Step:
    """Return the next step towards a standby of the wished release, while another one holds or none is to.

    Gives up when its driver says why it has failed, and after TRIES that were lost.
    """
    state = scene.state
    known = [each for each in state.family(wish.family) if not wish.alone or each.declared.seq > wish.seq]
    if known and not known[-1].ended:
        return _end_lost(state, known[-1]) or come_up(scene, known[-1])
    if known and known[-1].ended is DeploymentEnd.RETIRED and known[-1].ended_seq > wish.seq:
        return GiveUp(_refused(scene.snapshot, known[-1]))
    failed = [each for each in known if each.ended is DeploymentEnd.FAILED and each.ended_seq > wish.seq]
    if failed and not was_lost(state, failed[-1].id):
        return GiveUp(_refused(scene.snapshot, failed[-1]), log_of=scene.snapshot.log_of_failed(failed[-1].id))
    if len(failed) >= TRIES:
        return GiveUp(_lost(scene.snapshot, failed), log_of=failed[-1].id)
    # Beside a job without a stream each is to follow that.
    again = not follows_job(state, wish)
    return _declare(scene, wish, wish.family, wish.reason or wish.by, again=again)


def come_up(scene: Scene, deployment: Deployment) -> Step:
    """Return the next step of a declared deployment: it is submitted exactly once, and waited for."""
    snapshot, outcome, name = scene.snapshot, scene.outcome, deployment.id
    if not deployment.submission:
        mine = deployment.declared.by == scene.me.by
        submits = mine or orphaned(deployment, snapshot.at) or snapshot.submission(name)
        return Submit(name) if submits else ask_again(snapshot, name)
    driver = snapshot.drivers.get(name)
    unsent = outcome is not None and outcome.about(Ended.UNSENT, name)
    if unsent or (driver is not None and driver.state.reserved):
        return Submit(name)
    if outcome is not None and outcome.about(Ended.GONE, name):
        reason = f"Its driver never came up: {outcome.reason}. Look at the driver's log on the cluster."
        return Append(Kind.FAILED, {"deployment": name, "reason": reason, "error": outcome.reason})
    if scene.alive.get(name) is False:
        reason = "Nothing of it is left on the cluster."
        return Append(Kind.FAILED, {"deployment": name, "reason": reason, "error": ""})
    mute = outcome is not None and outcome.about(Ended.EXPIRED, name)
    return Wait(StandbyUp(name), log_of=name if mute else "")


def record_submission(scene: Scene, deployment: Deployment) -> Submit | None:
    """Record the submission of a driver that is up, where its heartbeat alone knows it: nothing is submitted.

    With the heartbeat the proof of the driver's death would be lost.
    """
    unknown = not deployment.submission and scene.snapshot.submission(deployment.id)
    return Submit(deployment.id) if unknown else None


def orphaned(deployment: Deployment, now: float) -> bool:
    """Return whether a declared deployment has lost the task that was to submit it."""
    # Either way: the clock of the machine that declared it may be ahead.
    return not deployment.submission and abs(now - deployment.declared_at) > ORPHANED_SECONDS


def ask_again(snapshot: Snapshot, deployment: str) -> Wait:
    """Wait ASK_AGAIN_SECONDS, then ask the cluster again whether the submission arrived."""
    return Wait(Pause(deployment, snapshot.at + ASK_AGAIN_SECONDS))


def nobody_else_submitted(snapshot: Snapshot, deployment: str, just_declared: bool) -> bool:
    """Return whether the caller may submit a deployment without asking the cluster whether somebody else has.

    :param just_declared: the caller has declared it itself since its last wait. Another run may submit it later.
    """
    return just_declared and snapshot.at < snapshot.state.deployments[deployment].declared_at + FIRST_SECONDS


def next_try(scene: Scene, wish: Wish, family: Family) -> Step:
    """Return the declaration of one more deployment while the stream has no holder; Later, in the pause before it."""
    tries, left = pause(scene.snapshot, family.id)
    if left <= 0:
        why = family.why or f"The stream has no holder. {wish.reason}".rstrip()
        return _declare(scene, wish, family.id, why)
    last = scene.state.family(family.id)[-1]
    error = HandOverFailed(
        f"Release {last.release.version} was started {tries} times within an hour and failed each time, last as "
        f"{last.id}: {scene.snapshot.why_ended(last.id)} The next try comes in {left:.0f} s.",
        next_step="The watch tries again, with growing pauses. Correct the release, then upgrade to it.",
        deployment=last.id,
    )
    log_of = scene.snapshot.log_of_failed(last.id)
    return Later(scene.snapshot.at + left, error, last.id, lost=was_lost(scene.state, last.id), log_of=log_of)


def pause(snapshot: Snapshot, family: str) -> tuple[int, float]:
    """Return how often a family's release was started without success within an hour, and the seconds to wait now.

    Those count that ended as the last one did: by an error, or because its driver was lost; not one of a machine whose
    clock is far ahead.
    """
    now, state = snapshot.at, snapshot.state
    proof = max(_last_proof(snapshot), _proof_before(state, family))
    earliest, latest = now - WINDOW_SECONDS, now + MAX_PAUSE_SECONDS
    again = [d for d in state.family(family) if d.declared.get("again")]
    tries = [d for d in again if earliest < d.declared_at <= latest and d.declared.seq > proof]
    if not tries:
        return 0, 0.0
    lost = was_lost(state, tries[-1].id)
    alike = sum(was_lost(state, each.id) == lost for each in tries)
    wait = min(PAUSE_SECONDS * 2 ** (alike - 1), MAX_PAUSE_SECONDS)
    return alike, max(0.0, tries[-1].declared_at + wait - now)


def was_lost(state: StreamState, deployment: str) -> bool:
    """Return whether a deployment ended with its machine or cluster: a driver was fenced, and none has failed."""
    ends = {driver.state for driver in state.of_deployment(deployment)}
    return IncarnationState.FENCED in ends and IncarnationState.FAILED not in ends


def _end_lost(state: StreamState, deployment: Deployment) -> Append | None:
    """End a deployment whose drivers were fenced before they held: one that the cluster starts again exits then."""
    drivers = state.of_deployment(deployment.id)
    if not drivers or any(each.state is not IncarnationState.FENCED or each.epoch for each in drivers):
        return None
    reason = "Its driver was lost before it held the stream."
    return Append(Kind.FAILED, {"deployment": deployment.id, "reason": reason, "error": ""})


def _last_proof(snapshot: Snapshot) -> int:
    """Return the number of the record that declared the last holder, if all of its queries have committed; else 0.

    Not if it has failed by itself within GOOD_RUN_SECONDS of its start, as its last heartbeat tells. Not if only some
    have: a query that fails each time would be tried without a pause because of another one. So one without input
    proves nothing, and the pauses stay. Its `batch` is no proof, either: an earlier driver's, when idle.
    """
    last = snapshot.state.last_driver
    if last is None or not last.queries:
        return 0
    beat = snapshot.heartbeats.get(last.id)
    ran = beat.at - beat.started_at if beat is not None and beat.started_at is not None else GOOD_RUN_SECONDS
    if last.state is IncarnationState.FAILED and ran < GOOD_RUN_SECONDS:
        return 0
    return snapshot.declared(deployment_of(last.id)).seq if snapshot.has_committed(last.id) else 0


def _proof_before(state: StreamState, family: str) -> int:
    """Return the number of the record that declared the last holder of a release which was run well, and was given up
    at a batch boundary for another one; else 0.
    """
    held = next((i for i in state.held if state.deployments[i.deployment].family == family), None)
    well = (IncarnationState.STANDBY, IncarnationState.RETIRED)
    if held is None or held.id == state.last_holder or held.state not in well or not held.proof.committed:
        return 0
    return state.deployments[held.deployment].declared.seq


def _declare(scene: Scene, wish: Wish, family: str, why: str, *, again: bool = True) -> Declare:
    """Declare a deployment that serves a family of wishes: its release, as it was declared or wished before."""
    state, known = scene.state, scene.state.family(family)
    origin = state.wishes.get(family)
    source = known[-1].declared if known else origin.record if origin is not None else wish.record
    release, policy = source["release"], source.get("policy") or {}
    skip = list(skipped(state))
    if skip != list(policy.get("skip") or ()):
        policy = {**policy, "skip": skip}  # of this release the list is older
    fields: dict[str, Any] = {"release": release, "policy": policy, "family": family, "reason": why}
    if known and again:
        fields["again"] = known[-1].id
    rewind = origin.option("rewind") if origin is not None else None
    if rewind is not None and not any(state.has_held(each.id) for each in known):
        fields["rewind"] = rewind
    # By the number of the last record: two that declare at once find the same id, and one of them is refused.
    return Declare(deployment_id(scene.snapshot.stream, release["version"], family, state.seq), fields)


def _refused(snapshot: Snapshot, deployment: Deployment) -> RehearsalRefused:
    return RehearsalRefused(
        f"Release {deployment.release.version} ({deployment.id}) {deployment.ended.value if deployment.ended else ''}: "
        f"{snapshot.why_ended(deployment.id) or 'no reason given'} {snapshot.holder_sentence}",
        next_step="Correct it and start a new run; clearing this task changes nothing.",
        deployment=deployment.id,
    )


def _lost(snapshot: Snapshot, failed: list[Deployment]) -> HandOverFailed:
    last = failed[-1].id
    return HandOverFailed(
        f"{len(failed)} drivers were lost one after the other before they held the stream, the last one of {last}: "
        f"{snapshot.why_ended(last)} {snapshot.holder_sentence}",
        next_step="Look at the cluster, and at the drivers' logs. Then ask again, in a new run.",
        deployment=last,
    )

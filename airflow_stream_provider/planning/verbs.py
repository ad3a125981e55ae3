"""The wishes of people and tasks: what each verb asks for, by how the stream stands. Pure.

A verb returns the wish, or why there is none: it is so already (Skip), or cannot be (GiveUp). The rest is
`reconcile`.
"""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.state import Deployment, StreamPhase, StreamState
from airflow_stream_provider.lifecycle.wish import Goal, Wish
from airflow_stream_provider.planning.gates import WHAT_HELPS, no_way_back_to
from airflow_stream_provider.planning.job import FOLLOW_FIRST, job_first
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import GiveUp, Skip, Want

Answer = Want | Skip | GiveUp


def _want(scene: Scene, goal: Goal, reason: str, *, publish: bool = False, **fields: Any) -> Want:
    said = {name: value for name, value in fields.items() if value}
    return Want({"wish": scene.me.wish, "goal": goal.value, "reason": reason, **said}, publish)


def _refuse(why: str, next_step: str, **fields: Any) -> GiveUp:
    return GiveUp(HandOverFailed(why, next_step=next_step, **fields))


def start(scene: Scene, version: str, reason: str, *, approval: bool = False) -> Answer:
    """A driver of the YAML's release is to hold a stream that has no holder."""
    state, snapshot = scene.state, scene.snapshot
    held = state.holding_deployment
    if held is not None and held.release.version != version:
        return _refuse(snapshot.holder_sentence, "Upgrade it instead of starting it, or stop it first.", holder=held.id)
    if held is not None and _governs(state, held):
        return Skip(f"Release {version} runs already. {snapshot.holder_sentence}")
    if held is not None:
        return _want(scene, Goal.HOLD, reason, family=held.family)
    job = job_first(state)
    if job:
        return _refuse(job, FOLLOW_FIRST)
    return _want(scene, Goal.HOLD, reason, publish=True, approval=approval)


def restart(scene: Scene, version: str, reason: str, *, approval: bool = False) -> Answer:
    """The holder stops at a batch boundary, then a new driver of the YAML's release, of the same version, holds."""
    held = scene.state.holding_deployment
    if held is None:
        return start(scene, version, reason, approval=approval)
    if held.release.version != version:
        return _refuse(
            f"{scene.snapshot.holder_sentence} The YAML asks for release {version}, and that is an upgrade.",
            "Use that, with the strategy `restart` where there is no room for two.",
        )
    return _want(scene, Goal.HOLD, reason, publish=True, alone=True, approval=approval)


def stop(scene: Scene, reason: str, *, for_good: bool = False) -> Answer:
    """No driver is to hold or to stand by: until a person starts the stream, or for good."""
    state = scene.state
    live = scene.snapshot.live_deployments()
    if state.wish is None and state.candidate is None and not live:
        return _refuse("No driver has ever held the stream, and none comes up: there is nothing to stop.", "Start it.")
    goal = Goal.LEAVE if for_good else Goal.STOP
    rests = state.wish is not None and state.wish.goal.rest and state.candidate is None
    if rests and state.wish is not None and state.wish.goal in (goal, Goal.LEAVE) and not live and not state.holder:
        return Skip(f"It was stopped by {state.wish.author}, and no driver is left by the control log.")
    return _want(scene, goal, reason)


def stand_by(scene: Scene, reason: str, since: float, **fields: Any) -> Answer:
    """A driver of a new release is to come up beside the holder, and to rehearse.

    :param since: when a person asked for it, in seconds since 1970: a later stop counts.
    :param fields: of the wish, such as `approval`, `rewind` and `redeployed`.
    """
    job = job_first(scene.state)
    if job:
        return _refuse(job, FOLLOW_FIRST)
    wish = scene.state.wish
    if wish is not None and wish.goal.rest and wish.at > since and not wish.by.startswith(scene.me.run):
        return _refuse(
            f"The stream was stopped by {wish.author} since this was asked for, and only a person starts it.",
            "Nothing was submitted. If it shall run, ask for it again.",
        )
    return _want(scene, Goal.STAND_BY, reason, publish=True, **fields)


def hand_over(scene: Scene, family: str, reason: str, approved: str = "") -> Answer:
    """The release that stands by is to hold."""
    state = scene.state
    candidate, wish = state.candidate, state.wish
    if wish is not None and wish.family == family:
        return _want(scene, Goal.HOLD, reason, family=family, approved=approved)
    if candidate is None or candidate.family != family:
        return GiveUp(replaced(scene.snapshot, state.wishes.get(family)))
    return _want(scene, Goal.HOLD, reason, family=family, approved=approved)


def promote(scene: Scene, reason: str) -> Answer:
    """The newest release that stands by, and was judged or approved, is to hold now."""
    state, snapshot = scene.state, scene.snapshot
    candidate = state.candidate
    live = [d for d in state.family(candidate.family) if not d.ended] if candidate is not None else []
    if candidate is None or not any(snapshot.candidate(each.id) for each in live):
        coming = f" {live[-1].id} comes up, and has not rehearsed yet: wait for it." if live else ""
        return _refuse(
            f"No new release stands by.{coming} {snapshot.holder_sentence}",
            "What held before takes over by a roll-back.",
        )
    return _want(scene, Goal.HOLD, reason, family=candidate.family)


def withdraw(scene: Scene, family: str, reason: str) -> Answer:
    """What was to hold before this release is to hold again; the release, which has never held, is not needed.

    :param family: that is called off; empty: the newest one.
    """
    state = scene.state
    wish, candidate = state.wish, state.candidate
    if not family:
        family = candidate.family if candidate is not None else wish.family if wish is not None else ""
    if family and state.has_run(family):
        return _refuse(
            f"Release {_version(state, family)} has taken the stream over meanwhile. {scene.snapshot.holder_sentence}",
            "Nothing was called off. Roll it back, if it shall not stay.",
        )
    if wish is not None and wish.family == family and family:
        if wish.before:
            return _want(scene, Goal.HOLD, reason, family=wish.before)
        return _want(scene, Goal.STOP, reason)
    if candidate is None or candidate.family != family:
        return Skip(f"No new release comes up or stands by. {scene.snapshot.holder_sentence}")
    if wish is None or wish.goal.rest:
        return _want(scene, wish.goal if wish is not None else Goal.STOP, reason)
    return _want(scene, Goal.HOLD, reason, family=wish.family, back=wish.back, approved=wish.approved)


def roll_back(scene: Scene, reason: str) -> Answer:
    """The release that held before the one that holds, or held last, is to hold again. While another one is to take
    over from that, it is to stay.
    """
    state, snapshot = scene.state, scene.snapshot
    last, wish = state.last_deployment, state.wish
    if last is None or state.resting:
        return _refuse(
            snapshot.holder_sentence,
            "Start it with the release that you want, upgrade to it, or redeploy a stored one.",
        )
    if wish is not None and wish.back and wish.family != last.family:
        return Skip(f"It is being rolled back already, by {wish.author}.")
    if wish is not None and wish.family != last.family:
        return _back(scene, last.family, reason)  # the release that is to hold does not yet
    before = _held_before(state, last)
    if before is None:
        return _refuse(
            f"No release is known that held before {last.id}.",
            "Upgrade to the one that you want, or redeploy a stored one.",
            deployment=last.id,
        )
    if wish is not None and wish.back and wish.family == last.family:
        return Skip(f"It is rolled back already, by {wish.author}. To go further back, upgrade to what you want.")
    return _back(scene, before.family, reason)


def undo(scene: Scene, fault: str | None, reason: str) -> Answer:
    """What was to be before the wishes of this run is to be again.

    :param fault: what was found wrong with the release that the run has put in charge; empty: nothing was, so it stays.
    """
    state, snapshot, run = scene.state, scene.snapshot, scene.me.run
    mine = [each for each in state.wishes.values() if each.by.startswith(run) and each.id != scene.me.wish]
    current = [each for each in mine if state.is_current(each)]
    if not current:
        why = replaced(snapshot, mine[-1]).message if mine else "This run has wished nothing."
        return Skip(f"Nothing to roll back: {why}")
    wish, family = state.wish, current[-1].family
    if wish is None or wish.family != family or not wish.by.startswith(run):
        return withdraw(scene, family, reason)
    held = state.holding_deployment
    if held is not None and held.family == family and fault == "":
        return _refuse(
            f"No fault of {held.id} was found; a task of this run failed for another reason, and says which. It stays: "
            f"{snapshot.holder_sentence}",
            "Clear the task that failed: the soak then judges the release, and this task rolls back if it is no good. "
            "Or roll back by hand: `airflow streams roll-back`.",
            deployment=held.id,
        )
    if not wish.before:
        return Skip(f"No release ran before, so there is none to go back to. {snapshot.holder_sentence}")
    return _back(scene, wish.before, reason)


def _back(scene: Scene, family: str, reason: str) -> Answer:
    shut = no_way_back_to(scene.snapshot, family)
    if shut:
        return _refuse(f"{shut} {scene.snapshot.holder_sentence}", WHAT_HELPS)
    return _want(scene, Goal.HOLD, reason, family=family, back=True)


def adopt(scene: Scene, reason: str, *, family: str = "", job: str = "", confirmed_by: str = "") -> Answer:
    """A driver is to follow a job that runs without a stream, once that is gone.

    :param family: of the deployment that stands by for it already; empty: a new one comes up.
    :param job: the cluster's id of the job, which the cluster ends.
    :param confirmed_by: the person who made sure that the job neither runs nor can come back.
    """
    state = scene.state
    if state.holder is not None:
        return _refuse(
            f"{scene.snapshot.holder_sentence} Somebody has started the stream.",
            "There is nothing to adopt: see that the job without a stream has ended.",
        )
    known = family or (state.wish.family if state.wish is not None and state.follower else "")
    fields = {"job": job, "confirmed_by": confirmed_by}
    if known and any(not each.ended for each in state.family(known)):
        return _want(scene, Goal.HOLD, reason, family=known, **fields)
    if state.job is None and state.phase not in (StreamPhase.EMPTY, StreamPhase.STOPPED):
        return _refuse(
            f"A stream that was running, or is about to, adopts no job. {scene.snapshot.holder_sentence}",
            "Stop it first, if a job without a stream runs in its place.",
        )
    return _want(scene, Goal.HOLD, reason, publish=True, adopts=True, **fields)


def replaced(snapshot: Snapshot, wish: Wish | None) -> HandOverFailed:
    """Return that another wish has replaced one, which and by whom."""
    now = snapshot.state.wish if wish is None or wish.goal is not Goal.STAND_BY else snapshot.state.candidate
    now = now or snapshot.state.wish
    by = "was replaced long ago" if now is None else f"was replaced by record {now.seq}, by {now.author}"
    return HandOverFailed(
        f"The wish of this task {by}. {snapshot.holder_sentence}",
        next_step="Nothing was done. If it is still wanted, ask for it again, in a new run.",
        by="" if now is None else now.by,
    )


def _governs(state: StreamState, held: Deployment) -> bool:
    return state.wish is not None and state.wish.family == held.family


def _held_before(state: StreamState, deployment: Deployment) -> Deployment | None:
    """The deployment that held the stream before the first one of this release's family did; None: none is known."""
    for each in state.family(deployment.family):
        before = state.deployments.get(each.previous or "")
        if before is not None and before.family != each.family:
            return before
    return None


def _version(state: StreamState, family: str) -> str:
    known = state.family(family)
    return known[-1].release.version if known else family

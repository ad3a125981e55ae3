"""The wishes of people and tasks: what each verb asks for, by how the stream stands. Pure.

A verb returns the wish, or why there is none: it is so already (Skip), or cannot be (GiveUp). The rest is
`reconcile`.
"""

from __future__ import annotations

import math
from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.rules import is_adopting
from airflow_stream_provider.lifecycle.state import Deployment, HoldEnd, StreamPhase, StreamState
from airflow_stream_provider.lifecycle.wish import Goal, Wish
from airflow_stream_provider.planning.choice import coming_up, named, never_commits, version_of
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


def start(
    scene: Scene,
    version: str,
    reason: str,
    *,
    anew: bool = False,
    approval: bool = False,
    hash: str = "",
    since: float = math.inf,
) -> Answer:
    """A driver of the YAML's release is to hold: of a stream without a holder, or anew, once the holder has stopped.

    :param anew: whether a holder, which has to be of the same version, stops at a batch boundary first.
    :param approval: whether a person has to approve a release that has never held the stream.
    :param hash: of the release as it would be published; empty: not known.
    :param since: when a person asked for it, in seconds since 1970: a later stop counts. Default: now.
    """
    state, snapshot = scene.state, scene.snapshot
    held = state.holding_deployment
    late = _stopped_since(scene, since)
    if late is not None:
        return late
    if held is not None and held.release.version != version:
        return _refuse(
            f"{snapshot.holder_sentence} Release {version} was asked for, and that is an upgrade.",
            "Upgrade the stream to it, with the strategy `restart` where there is no room for two; or stop it first.",
            holder=held.id,
        )
    if held is not None and not anew and state.wish is not None and state.wish.family != held.family:
        return _want(scene, Goal.HOLD, reason, family=held.family)
    if held is not None and not anew:
        other = hash not in ("", held.release.hash)
        but = " Its files or settings are not those of the YAML: that takes an upgrade." if other else ""
        return Skip(f"Release {version} runs already.{but} {snapshot.holder_sentence}")
    job = job_first(state) if held is None else ""
    if job:
        return _refuse(job, FOLLOW_FIRST)
    alone = held is not None
    new = _new(state, version, hash, approval)
    return new or _want(scene, Goal.HOLD, reason, publish=True, alone=alone, approval=approval)


def stop(scene: Scene, reason: str, *, for_good: bool = False) -> Answer:
    """No driver is to hold or to stand by: until a person starts the stream, or for good."""
    state = scene.state
    live = scene.snapshot.live_deployments()
    if state.wish is None and state.candidate is None and not live and state.holder is None:
        return _refuse("No driver has ever held the stream, and none comes up: there is nothing to stop.", "Start it.")
    goal = Goal.LEAVE if for_good else Goal.STOP
    rests = state.wish is not None and state.wish.goal.rest and state.candidate is None
    if rests and state.wish is not None and state.wish.goal in (goal, Goal.LEAVE) and not live and not state.holder:
        return Skip(f"It was stopped by {state.wish.author}, and no driver is left by the control log.")
    return _want(scene, goal, reason)


def stand_by(scene: Scene, reason: str, since: float, *, alone: bool = False, **fields: Any) -> Answer:
    """A driver of a new release is to come up beside the holder, and to rehearse.

    :param since: when a person asked for it, in seconds since 1970: a later stop counts.
    :param alone: whether the holder stops at a batch boundary first, and that driver is to hold: for a cluster without
        room for two.
    :param fields: of the wish, such as `approval`, `rewind` and `redeployed`; where it is to hold, also `approved`.
    """
    goal = Goal.HOLD if alone else Goal.STAND_BY
    job = job_first(scene.state)
    late = _refuse(job, FOLLOW_FIRST) if job else _stopped_since(scene, since)
    return late or _want(scene, goal, reason, publish=True, alone=alone, **fields)


def _stopped_since(scene: Scene, since: float) -> GiveUp | None:
    wish = scene.state.wish
    if wish is None or not wish.goal.rest or wish.at <= since or wish.by.startswith(scene.me.run):
        return None
    return _refuse(
        f"The stream was stopped by {wish.author} since this was asked for, and only a person starts it.",
        "Nothing was submitted. If it shall run, ask for it again.",
    )


def hand_over(scene: Scene, family: str, reason: str, approved: str = "") -> Answer:
    """The release that stands by is to hold."""
    state = scene.state
    candidate, wish = state.candidate, state.wish
    if all(each is None or each.family != family for each in (wish, candidate)):
        return GiveUp(replaced(scene.snapshot, state.wishes.get(family)))
    return _want(scene, Goal.HOLD, reason, family=family, approved=approved)


def promote(scene: Scene, reason: str, family: str = "", approved: str = "") -> Answer:
    """The newest release that stands by, and was judged or approved, is to hold now.

    :param family: the one that was foreseen; default: the newest.
    :param approved: by whom, or by which verdict, where that is not known of its wish already.
    """
    state, snapshot = scene.state, scene.snapshot
    candidate = state.candidate or _waiting(state)
    if family and candidate is not None and candidate.family != family:
        return GiveUp(replaced(snapshot, state.wishes.get(family)))
    live = [d for d in state.family(candidate.family) if not d.ended] if candidate is not None else []
    if candidate is None or not live:
        return Skip(f"No new release stands by. {snapshot.holder_sentence} What held before takes over by a roll-back.")
    if candidate.only_looks:
        return _refuse(f"{live[-1].id} only looks, and never comes to hold.", "Upgrade with what it finds.")
    if not any(snapshot.candidate(each.id) for each in live):
        coming = f"{live[-1].id} comes up, and has not rehearsed yet."
        return _refuse(f"No new release stands by: {coming} {snapshot.holder_sentence}", "Wait for it; then ask again.")
    return _want(scene, Goal.HOLD, reason, family=candidate.family, approved=approved or candidate.approved)


def withdraw(scene: Scene, family: str, reason: str) -> Answer:
    """The release that was to hold before this one is to hold again; this one, which has never held, is not needed.

    :param family: that is called off; empty: the newest one.
    """
    state = scene.state
    wish, candidate = state.wish, state.candidate
    if not family:
        family = newest_that_never_held(state)
        if not family and state.holder is None and coming_up(state):
            return _refuse(
                f"{coming_up(state)[-1].id} runs again what held last, as nobody holds.",
                "Stop the stream, if it shall stay down.",
            )
    if family and state.has_run(family):
        return _refuse(
            f"Release {version_of(state, family)} has taken over meanwhile. {scene.snapshot.holder_sentence}",
            "Nothing was called off. Roll it back, if it shall not stay.",
        )
    if wish is not None and wish.family == family and family:
        last = state.last_deployment
        stopped = state.holder is None and state.last_end is HoldEnd.STOPPED  # before that wish: so it is to stay
        before = wish.before if last is None or stopped or state.has_run(wish.before) else last.family
        if before:
            return _want(scene, Goal.HOLD, reason, family=before)
        return _want(scene, Goal.STOP, reason)
    if candidate is None or candidate.family != family:
        return Skip(f"No new release comes up or stands by. {scene.snapshot.holder_sentence}")
    if wish is None or wish.goal.rest or state.resting:
        return _want(scene, wish.goal if wish is not None and wish.goal.rest else Goal.STOP, reason)
    held = state.holding_deployment
    if held is not None and held.family != wish.family and never_commits(state, wish.family):
        return _want(scene, Goal.HOLD, reason, family=held.family)  # it runs in place of that, which is not tried anew
    # A driver that comes up alone for it already is kept.
    up = any(each.fulfils(wish) and not each.ended for each in state.family(wish.family))
    waits = wish.alone and not up and not state.has_run(wish.family)
    return _want(scene, Goal.HOLD, reason, family=wish.family, back=wish.back, approved=wish.approved, alone=waits)


def newest_that_never_held(state: StreamState) -> str:
    """Return the family of the newest release that comes up, stands by or is to hold, and never has; empty: none."""
    wishes = (each for each in (state.candidate, state.wish) if each is not None and not each.goal.rest)
    return next((each.family for each in wishes if not state.has_run(each.family)), "")


def roll_back(scene: Scene, reason: str, family: str = "") -> Answer:
    """The release that held before the one that holds, or held last, is to hold again. While another one is to take
    over from that, it is to stay.

    :param family: the one that was foreseen to hold then; default: whichever it is.
    """
    answer = _roll_back(scene, reason)
    back = answer.fields["family"] if isinstance(answer, Want) else family
    if not family or back == family:
        return answer
    now, then = (named(scene.state, each) for each in (back, family))
    return _refuse(
        f"The stream would go back to release {now} now, and release {then} was foreseen. "
        f"{scene.snapshot.holder_sentence}",
        "Nothing was done. If it shall be rolled back, ask for it again.",
    )


def _roll_back(scene: Scene, reason: str) -> Answer:
    state, snapshot = scene.state, scene.snapshot
    last, wish = state.last_deployment, state.wish
    if last is None or state.resting:
        return _refuse(
            snapshot.holder_sentence,
            "Start it with the release that you want, upgrade to it, or redeploy a stored one.",
        )
    job = job_first(state)
    if job:
        return _refuse(job, FOLLOW_FIRST)
    if wish is not None and wish.back and wish.family != last.family:
        return _back(scene, wish.family, reason)  # once more: it may have been given up
    if wish is not None and wish.back and _took_back(snapshot, wish):
        return Skip(f"It is rolled back already, by {wish.author}. To go further back, upgrade to what you want.")
    if wish is not None and not wish.goal.rest and wish.family != last.family:
        return _back(scene, last.family, reason)  # the release that is to hold does not yet
    before = _held_before(state, last)
    if not before:
        return _refuse(
            f"No release is known that held before {last.id}.",
            "Upgrade to the one that you want, or redeploy a stored one.",
            deployment=last.id,
        )
    return _back(scene, before, reason)


def _took_back(snapshot: Snapshot, wish: Wish) -> bool:
    """Whether another release held when a roll-back was wished: not after a hand-over that never took place."""
    before = [r for r in snapshot.acquisitions() if r.seq < wish.seq]
    held = snapshot.state.deployments.get(deployment_of(before[-1]["incarnation"])) if before else None
    return held is None or held.family != wish.family


def undo(scene: Scene, fault: str | None, reason: str) -> Answer:
    """The release that was to hold before the wishes of this run is to hold again.

    :param fault: what was found wrong with the release that the run has put in charge; empty: nothing was, so it stays.
    """
    state, snapshot, run = scene.state, scene.snapshot, scene.me.run
    mine = [each for each in state.wishes.values() if each.by.startswith(run) and each.id != scene.me.wish]
    current = [each for each in mine if state.is_current(each)]
    if not current:
        why = replaced(snapshot, mine[-1]).message if mine else "This run has wished nothing."
        return Skip(f"Nothing to roll back: {why}")
    wish, family = state.wish, current[-1].family
    if wish is None or wish.family != family:
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
    if not wish.before and not state.has_run(family):
        return withdraw(scene, family, reason)
    if not wish.before:
        return Skip(f"No release ran before, so there is none to go back to. {snapshot.holder_sentence}")
    return _back(scene, wish.before, reason)


def _back(scene: Scene, family: str, reason: str) -> Answer:
    shut = no_way_back_to(scene.snapshot, family)
    if shut:
        return _refuse(f"{shut} {scene.snapshot.holder_sentence}", WHAT_HELPS)
    return _want(scene, Goal.HOLD, reason, family=family, back=True)


def adopt(
    scene: Scene, reason: str, *, family: str = "", job: str = "", confirmed_by: str = "", approval: bool = False
) -> Answer:
    """A driver is to follow a job that runs without a stream, once that is gone.

    :param family: of the deployment that stands by for it already; empty: a new one comes up.
    :param job: the cluster's id of the job, which the cluster ends.
    :param confirmed_by: the person who made sure that the job neither runs nor can come back.
    :param approval: whether a new release needs a person's approval: an adoption does not ask for it.
    """
    state = scene.state
    if job and confirmed_by:
        return _refuse(
            f"Either the cluster ends {job}, or {confirmed_by} has seen that it is gone.", "Give one of both."
        )
    if state.holder is not None:
        return _refuse(
            f"{scene.snapshot.holder_sentence} Somebody has started the stream.",
            "There is nothing to adopt: see that the job without a stream has ended.",
        )
    known = family or (state.deployments[state.follower].family if state.follower else "")
    fields: dict[str, Any] = {"job": job, "confirmed_by": confirmed_by}
    if known and any(not each.ended for each in state.family(known)):
        return _want(scene, Goal.HOLD, reason, family=known, **fields)
    if state.job is None and state.phase not in (StreamPhase.EMPTY, StreamPhase.STOPPED) and not is_adopting(state):
        return _refuse(
            f"A stream that was running, or is about to, adopts no job. {scene.snapshot.holder_sentence}",
            "Upgrade it, or see with `airflow streams status` how it runs. If a job without a stream runs in its "
            "place, stop it first.",
        )
    if approval:
        return _refuse(
            "The YAML's release needs a person's approval (`upgrade.approval`), and an adoption is no upgrade.",
            "Leave that out until the job is adopted.",
        )
    live = scene.snapshot.live_deployments()
    if live:
        return _refuse(f"{live[-1]} comes up or stands by already.", "Call it off first (`abort`).")
    found = scene.snapshot.job
    ended = state.job is not None and state.job.id == job
    if job and found is not None and found.id == job and found.state.terminal and found.gone and not ended:
        return _refuse(
            f"{found.about or job} has ended already ({found.state.value}).",
            "If it was started again since, give the id of that; if nothing runs, start the stream.",
        )
    return _want(scene, Goal.HOLD, reason, publish=True, adopts=True, **fields)


def asked_at(state: StreamState, wish: Wish) -> float:
    """Return when a wish was asked for, in seconds since 1970: with the first one of its run or command."""
    run = wish.by.rpartition("/")[0]
    return min(each.at for each in (wish, *state.wishes.values()) if each.by.rpartition("/")[0] == run)


def replaced(snapshot: Snapshot, wish: Wish | None) -> HandOverFailed:
    """Return that another wish has replaced one, which and by whom."""
    now = snapshot.state.wish if wish is None or wish.goal is not Goal.STAND_BY else snapshot.state.candidate
    now = now or snapshot.state.wish
    by = "was replaced long ago" if now is None else f"was replaced by record {now.seq}, by {now.author}"
    return HandOverFailed(
        f"The wish of this task {by}. {snapshot.holder_sentence}",
        next_step="This task does nothing more. If it is still wanted, ask for it again, in a new run.",
        by="" if now is None else now.by,
    )


def _new(state: StreamState, version: str, hash: str, approval: bool) -> GiveUp | None:
    """Return why a release that has never held the stream is not started; None: it is, or its gate says so later."""
    if not approval or not hash or any(state.deployments[i.deployment].release.hash == hash for i in state.held):
        return None
    return _refuse(
        f"The YAML's release {version} ({hash[:12]}) has never held the stream, and a person has to approve a new one "
        "(`upgrade.approval`).",
        "Upgrade the stream to it.",
    )


def _waiting(state: StreamState) -> Wish | None:
    """The wish for a new release that has not come to hold, such as after a hand-over that was missed."""
    wish = state.wish
    new = wish is not None and not (wish.goal.rest or wish.back or state.has_run(wish.family) or is_adopting(state))
    return wish if new else None


def _held_before(state: StreamState, last: Deployment) -> str:
    """The family that held the stream before the one of the last holder first did; empty: none is known.

    While another release runs in place of the wished one, that: it is what was to hold before.
    """
    wish = state.wish
    if wish is not None and wish.family != last.family and state.has_run(wish.family) and state.has_run(wish.before):
        return wish.before
    passed = [last.family]
    while True:
        known = (state.deployments.get(each.previous or "") for each in state.family(passed[-1]))
        before = next((each for each in known if each is not None and each.family not in passed), None)
        if before is None or before.release.hash != last.release.hash:
            return "" if before is None else before.family
        passed.append(before.family)  # a start or a restart has brought the same release in anew

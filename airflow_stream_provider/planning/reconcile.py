"""The one decision of what comes next for a stream: a step from what is to what is wanted. Pure.

1. Safety: a driver that stopped inside a batch, or is found dead, is fenced; an open request goes on to its end, or is
   aborted when another wish has replaced the one that it serves.
2. Holder: the release of the wish comes to hold, by a hand-over or an appointment; or the holder stops.
3. Candidate: the release that is to stand by comes up and rehearses.
4. Rest: what came up and is not needed is retired.

Every task, command and run of the watch takes its steps from here, and the forecast runs the same function forward. So
no gate can be passed by another way. Each step is written only if the log has not changed since, and each may be taken
by anybody: several may do this at the same time, and be killed at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import (
    Deployment,
    DeploymentEnd,
    Incarnation,
    Request,
    RequestStage,
    StreamPhase,
)
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning.adopt import follow_job, hindrance
from airflow_stream_provider.planning.bring_up import bring_up, come_up, next_try, record_submission
from airflow_stream_provider.planning.choice import TRIES, Family, choose, coming_up
from airflow_stream_provider.planning.conditions import StandbyUp
from airflow_stream_provider.planning.fence import fence, fence_first
from airflow_stream_provider.planning.gates import closed, no_way_back_to
from airflow_stream_provider.planning.job import follows_job
from airflow_stream_provider.planning.request import ask, see_through
from airflow_stream_provider.planning.retire import retire_all
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Later, Step, Wait

# A driver of the wanted release that takes longer to come up leaves the stream to a warm one of another release.
COME_UP_SECONDS = 300.0


def reconcile(scene: Scene, wish: Wish | None = None) -> Step:
    """Return the next step; Done when what is wanted is so, GiveUp or Later when nothing can be done, or not now.

    :param wish: the one that a task waits for, which is current: the step is for this one alone. Default: for all.
    """
    state = scene.state
    if wish is not None and state.candidate is not None and wish.id == state.candidate.id:
        return _stand_by(scene, wish) or Done({})
    step = _make_safe(scene)
    if step is not None:
        return step
    step = None
    if state.wish is not None:
        step = _stop(scene, state.wish) if state.wish.goal.rest else _hold(scene, state.wish)
    if isinstance(step, (GiveUp, Later)) and state.holder is not None:
        step = known_to_live(scene, (state.holder,)) or step
    if wish is not None:
        return step or Done({})
    waits = state.holder is not None and isinstance(step, Wait)
    if step is not None and not waits and not isinstance(step, (GiveUp, Later)):
        return step
    more = _stand_by(scene, state.candidate) if state.candidate is not None else None
    pauses = isinstance(step, Later) and isinstance(more, Wait) and isinstance(more.condition, StandbyUp)
    if isinstance(more, GiveUp) or pauses or _comes_up(scene, more):  # of a candidate its own task tells
        more = None
    return more or _retire_spare(scene) or (None if _comes_up(scene, step) else step) or Done({})


def _comes_up(scene: Scene, step: Step | None) -> bool:
    """Whether a step waits for a driver beside the holder: the next look sees it, and whether the holder lives."""
    return scene.state.holder is not None and isinstance(step, Wait) and isinstance(step.condition, StandbyUp)


def _make_safe(scene: Scene) -> Step | None:
    state = scene.state
    first = fence_first(scene.snapshot, scene.outcome)
    if first is not None:
        return first
    if state.holder is not None and scene.alive.get(state.holder) is False:
        why = "It holds the stream and gives no sign of life."
        return fence(scene.snapshot, state.holder, scene.outcome, why)
    return None if state.open_request is None else see_through(scene, state.open_request)


def _stop(scene: Scene, wish: Wish) -> Step | None:
    """No driver is to hold or to stand by, but for a candidate that was asked for since."""
    state = scene.state
    if state.holder is not None:
        return _ask_to_stop(scene, wish, state.holder)
    since = [d.id for d in state.deployments.values() if _retired_since(d, wish)]
    wanted = state.candidate.family if state.candidate is not None else ""
    live = [d.id for d in state.deployments.values() if not d.ended and d.family != (wanted or None)]
    return retire_all(scene, (*since, *live), f"The stream was stopped: {wish.reason or wish.by}")


def _ask_to_stop(scene: Scene, wish: Wish, holder: str) -> Step:
    state = scene.state
    asked = [r for r in state.requests.values() if r.wish == wish.id and r.to is None and r.source == holder]
    if scene.hangs:
        return fence(scene.snapshot, holder, scene.outcome, scene.hangs)
    if not asked:
        return ask(scene, wish, None)
    return GiveUp(
        HandOverFailed(
            f"{deployment_of(holder)} did not stop at a batch boundary in time and goes on.",
            next_step="Ask again, in a new run, between two of its batches (they are in the Spark UI). If it must not "
            "write now, fence it (`airflow streams fence`): that cuts its batch off, and the next driver runs it anew.",
            holder=holder,
        )
    )


def _hold(scene: Scene, wish: Wish) -> Step | None:
    state = scene.state
    if state.holder is None:
        return _without_holder(scene, wish)
    held = state.holding_deployment
    assert held is not None
    if held.fulfils(wish):
        return record_submission(scene, held) or known_to_live(scene, (state.holder,))
    return _change(scene, wish, state.holder)


def shut(scene: Scene, wish: Wish) -> HandOverFailed | None:
    """Return why the release of a wish may not come to hold now, though it is wished for; None: it may."""
    beside = scene.state.holder is not None and not wish.alone
    return closed(scene, wish, _newest(scene, wish) if beside else None)


def known_to_live(scene: Scene, drivers: Iterable[str]) -> Step | None:
    """Return a wait until it is known whether these drivers live; None: it is."""
    watched = tuple(drivers)
    if all(scene.alive.get(name) is not None for name in watched):
        return None
    # For all at once: a plan forgets the finding of a wait after the next one, and two waits for a part each would
    # follow each other for ever.
    counters = {name: scene.snapshot.counter(name) for name in watched}
    return Wait(SignsOfLife(counters, scene.snapshot.lease(watched)))


def _change(scene: Scene, wish: Wish, holder: str) -> Step:
    """Another release holds than the one that is to."""
    refused = shut(scene, wish)
    if refused is not None:
        return GiveUp(refused)
    if wish.alone:
        return _ask_to_stop(scene, wish, holder)
    standby = _newest(scene, wish)
    if standby is None:
        dead = next((each for each in _standbys(scene, wish, wish.family)), None)
        why = "It is to take over and gives no sign of life."
        return bring_up(scene, wish) if dead is None else fence(scene.snapshot, dead.id, scene.outcome, why)
    if scene.hangs:
        return fence(scene.snapshot, holder, scene.outcome, scene.hangs)
    asked = [r for r in scene.state.requests.values() if r.wish == wish.id and r.to and r.source == holder]
    if wish.back and any(live_standby(scene.state, each.to) and _answered(scene, each) for each in asked):
        why = f"It did not release the stream in time: {wish.reason or wish.by}"
        return fence(scene.snapshot, holder, scene.outcome, why)
    return ask(scene, wish, standby.id) if len(asked) < TRIES else GiveUp(_not_taken(scene, asked[-1]))


def _answered(scene: Scene, request: Request) -> bool:
    """Whether the standby was ready, so that the holder was to let go: before, it may not."""
    return any(r.kind == Kind.READY and r["request"] == request.id for r in scene.snapshot.records)


def _newest(scene: Scene, wish: Wish) -> Incarnation | None:
    """The newest standby of the wished release that is not known to be dead."""
    found = [each for each in _standbys(scene, wish, wish.family) if scene.alive.get(each.id) is not False]
    return max(found, key=lambda each: (each.epoch, each.announced), default=None)


def _standbys(scene: Scene, wish: Wish, family: str) -> list[Incarnation]:
    state = scene.state
    return [
        each
        for each in state.standbys()
        if live_standby(state, each.id)
        and state.deployments[each.deployment].family == family
        and (family != wish.family or state.deployments[each.deployment].fulfils(wish))
    ]


def _not_taken(scene: Scene, request: Request) -> HandOverFailed:
    how = "was taken back" if request.stage is RequestStage.TAKEN_BACK else "was aborted"
    aborted = (r for r in scene.snapshot.records if r.kind == Kind.ABORTED and r["request"] == request.id)
    why = next((str(r.get("reason")) for r in aborted), "")
    return HandOverFailed(
        f"The hand-over to {request.to} {how}{': ' + why if why else ''}. {scene.snapshot.holder_sentence}",
        next_step="Nothing was lost. Look at both drivers' logs, then ask again. Where the holder hangs, fence it "
        "first (`airflow streams fence`).",
        request=request.id,
        holder=scene.snapshot.holding,
    )


def _without_holder(scene: Scene, wish: Wish) -> Step | None:
    """No driver holds, and one is to: appoint one that stands by, else wait for one that comes up, else start one."""
    state = scene.state
    if state.phase is StreamPhase.FINISHED:
        return None  # the script has ended by itself
    step = follow_job(scene, wish) if follows_job(state, wish) else None
    if step is not None:
        return step
    why = hindrance(scene, wish)
    if why is not None:
        return GiveUp(why)
    family = _chosen(scene, wish)
    shut = closed(scene, wish, None) if family.id == wish.family else None
    if shut is not None:
        if wish.back or not state.has_run(wish.before):
            return GiveUp(shut)
        family = Family(wish.before, f"Until then: {shut}")  # nothing is against that
    if wish.alone and family.id == wish.family and not any(each.fulfils(wish) for each in state.family(wish.family)):
        step = retire_all(scene, _leftovers(scene, wish), f"It makes room for the wish of {wish.by}.")
        if step is not None:
            return step
    return _bring_back(scene, wish, family)


def _chosen(scene: Scene, wish: Wish) -> Family:
    """The family to run now; not another one than the wished that could not read what was written since it held."""
    family = choose(scene.state, wish, scene.snapshot.at)
    other = family.id != wish.family
    return Family(wish.family) if other and no_way_back_to(scene.snapshot, family.id) else family


def _make_room(scene: Scene, family: str) -> Step | None:
    """End what serves no wish and never held: it may have the room that what is to hold needs."""
    state = scene.state
    wanted = {family, *(each.family for each in (state.wish, state.candidate) if each is not None)}
    spare = (d for d in state.deployments.values() if not d.ended and not state.has_held(d.id))
    left = [each.id for each in spare if each.family not in wanted]
    return retire_all(scene, left, "It serves no wish any more, and makes room for what is to hold.")


def _bring_back(scene: Scene, wish: Wish, family: Family) -> Step:
    state = scene.state
    standbys = _standbys(scene, wish, family.id)
    living = [each for each in standbys if scene.alive.get(each.id)]
    if living:
        best = max(living, key=lambda each: (each.epoch, each.announced)).id
        if _in_vain(scene, best) < TRIES:
            return ask(scene, wish, best, family.why)
        why = f"It was asked {TRIES} times to hold a stream without a holder, and did not take it over."
        return fence(scene.snapshot, best, scene.outcome, why)
    all_standbys = [each.id for each in state.standbys() if live_standby(state, each.id)]
    step = known_to_live(scene, all_standbys) if standbys else None
    if step is not None:
        return step
    coming = _coming(scene, wish, family.id)
    gone = next((each for each in coming if scene.alive.get(each.id) is False), None)
    if gone is not None:
        return come_up(scene, gone)
    if coming and _is_late(scene, coming[-1]):
        step = known_to_live(scene, all_standbys) or _stand_in(scene, wish)
        if step is not None:
            return step
    if coming:
        return come_up(scene, coming[-1])
    return _make_room(scene, family.id) or next_try(scene, wish, family)


def _in_vain(scene: Scene, standby: str) -> int:
    """How often a standby was asked since the last hold ended, and has not come to hold."""
    asked = (r for r in scene.snapshot.records if r.kind == Kind.REQUESTED and r.seq > scene.state.held_to)
    found = (scene.state.requests.get(r["request"]) for r in asked if r["to"] == standby)
    return sum(each is not None and each.stage is RequestStage.ABORTED for each in found)


def _coming(scene: Scene, wish: Wish, family: str) -> list[Deployment]:
    """The deployments of a family that live and have no driver in the log that may come to hold, oldest first."""
    state = scene.state
    return [e for e in coming_up(state) if e.family == family and (family != wish.family or e.fulfils(wish))]


def _is_late(scene: Scene, deployment: Deployment) -> bool:
    """Whether a deployment that comes up should have done so long ago."""
    # One that has held came up long ago: it is late only when it does not come up again.
    since = scene.snapshot.free_since if scene.state.has_held(deployment.id) else deployment.declared_at
    return scene.snapshot.at > since + COME_UP_SECONDS


def _stand_in(scene: Scene, wish: Wish) -> Step | None:
    """Appoint a living standby that has held before: better than no driver, when there is no room for another."""
    state = scene.state
    living = [each for each in state.held if live_standby(state, each.id) and scene.alive.get(each.id)]
    held = [e for e in living if not no_way_back_to(scene.snapshot, state.deployments[e.deployment].family)]
    if not held or wish.back:
        return None
    why = "The release that is to hold does not come up, and this one stands by and has run the stream before."
    return ask(scene, wish, held[0].id, why)


def _stand_by(scene: Scene, wish: Wish) -> Step | None:
    """A candidate is to stand by: what was warm before the wish makes room for it; then it comes up and rehearses."""
    state = scene.state
    live = [each for each in state.family(wish.family) if not each.ended]
    up = [each for each in live if scene.snapshot.candidate(each.id) or scene.snapshot.holds(each.id)]
    if up:
        return record_submission(scene, up[-1])
    if not state.family(wish.family):
        if state.open_request is not None:
            return _make_safe(scene)
        step = retire_all(scene, _leftovers(scene, wish), f"It makes room for the wish of {wish.by}.")
        if step is not None:
            return step
    return bring_up(scene, wish)


def _leftovers(scene: Scene, wish: Wish) -> list[str]:
    """Deployments that live since before a wish, and are not to hold; with those that were ended for this wish."""
    state, governs = scene.state, scene.state.wish
    needed = {state.holding_deployment.id} if state.holding_deployment is not None else set()
    if governs is not None and not governs.goal.rest and governs is not wish:
        family = governs.family if state.holder is not None else _chosen(scene, governs).id
        needed |= {each.id for each in state.family(family)}
    return [
        each.id
        for each in state.deployments.values()
        if each.declared.seq < wish.seq and each.id not in needed and (not each.ended or _retired_since(each, wish))
    ]


def _retired_since(deployment: Deployment, wish: Wish) -> bool:
    """Whether it was retired for this wish: it is waited for until its driver is gone."""
    return deployment.ended is DeploymentEnd.RETIRED and deployment.ended_seq > wish.seq


def _retire_spare(scene: Scene) -> Step | None:
    """End what has never held and serves no wish that counts."""
    state = scene.state
    if state.holder is None:
        return None
    wanted = {each.family for each in (state.wish, state.candidate) if each is not None}
    for each in state.deployments.values():
        spare = not each.ended and not state.has_held(each.id) and each.id not in scene.snapshot.in_request
        late = each.declared.seq < state.held_from and not _is_candidate(scene, each)
        if spare and (each.family not in wanted or late):
            reason = f"It is not needed: {scene.snapshot.holding} holds."
            return Append(Kind.RETIRED, {"deployment": each.id, "reason": reason})
    return None


def _is_candidate(scene: Scene, deployment: Deployment) -> bool:
    candidate, wish, held = scene.state.candidate, scene.state.wish, scene.state.holding_deployment
    to_hold = wish is not None and held is not None and not held.fulfils(wish) and deployment.family == wish.family
    return to_hold or (candidate is not None and candidate.family == deployment.family)

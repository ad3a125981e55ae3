"""A task states its wish once, and takes steps until that is so, or another wish has replaced it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import Incarnation, RequestStage, StreamPhase
from airflow_stream_provider.lifecycle.wish import Goal, Wish
from airflow_stream_provider.planning.adopt import hindrance
from airflow_stream_provider.planning.conditions import FirstCommits, NextTry
from airflow_stream_provider.planning.job import follows_job
from airflow_stream_provider.planning.reconcile import known_to_live, reconcile, shut
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import AskPerson, Done, GiveUp, Later, Skip, Step, Wait, Want
from airflow_stream_provider.planning.verbs import Answer, replaced

# A stream without input commits no batch; its gap is then reported as not known.
FIRST_COMMIT_SECONDS = 20.0


def pursue(scene: Scene, verb: Callable[[], Answer]) -> Step:
    """Return the next step of a task whose wish is `verb`; Done with its XCom when that is so.

    A task that is cleared, or tried again, finds its wish in the log. Where another one has replaced it, the task gives
    up, and says which and by whom. Two at once: the later one counts.
    """
    state, snapshot = scene.state, scene.snapshot
    mine = state.wishes.get(scene.me.wish)
    if mine is None:
        return GiveUp(replaced(snapshot, None)) if scene.me.wish in state.forgotten else _unless_so(scene, verb())
    if not state.is_current(mine):
        return GiveUp(replaced(snapshot, mine))
    first = _first_batch(scene, mine) if mine.goal is Goal.HOLD else None
    if first is not None:
        return first
    candidate = state.candidate
    waits = candidate is not None and mine.goal is Goal.STAND_BY and candidate.family == mine.family
    if state.phase is StreamPhase.FINISHED and not mine.goal.rest and not waits:
        why = f"The script that this task has started has ended by itself. {snapshot.holder_sentence}"
        return GiveUp(HandOverFailed(why, next_step="Start a new run, if it shall run once more."))
    step = reconcile(scene, candidate if waits else state.wish)
    if isinstance(step, Later) and step.lost:
        return Wait(NextTry(step.deployment, step.until))
    if isinstance(step, Later):
        return GiveUp(step.error, log_of=step.log_of)
    if isinstance(step, AskPerson):
        return Done({**standby_result(snapshot, step.deployment), "adopted": False, "says": step.says})
    return Done(result(snapshot, mine)) if isinstance(step, Done) else step


def _unless_so(scene: Scene, answer: Answer) -> Step:
    """Where nothing is to be wished, since it is so already: see that it is. Nor is anything wished at a shut gate."""
    if isinstance(answer, Want):
        return answer if answer.publish else _unless_shut(scene, answer)
    if not isinstance(answer, Skip) or scene.state.holder is None:
        return answer
    step = reconcile(scene, scene.state.wish)
    return answer if isinstance(step, (Done, GiveUp, Later)) else step


def _unless_shut(scene: Scene, want: Want) -> Step:
    """A wish that cannot come true is not made: it would take the place of the one that counts, and change nothing."""
    record = Record(Kind.WANTED, want.fields, by=scene.me.by, at=scene.snapshot.at).numbered(scene.state.seq + 1)
    state = fold([record], scene.state)
    wish, before, holder = state.wish, scene.state.wish, state.holder
    if holder is not None and wish is not None and before is not None and wish.family == before.family:
        return want  # it takes no other one's place, and what was to stand by is called off
    if wish is None or wish.seq != record.seq or wish.goal is not Goal.HOLD or state.phase is StreamPhase.FINISHED:
        return want
    after = replace(scene, snapshot=replace(scene.snapshot, state=state))
    if holder is None and follows_job(state, wish):
        return want
    why = (hindrance(after, wish) if holder is None else None) or shut(after, wish)
    if why is None:
        return want
    # A holder that is dead is fenced first, and then less is asked of its successor.
    unknown = known_to_live(scene, (holder,)) if holder is not None else None
    return unknown or (want if scene.alive.get(holder or "") is False else GiveUp(why))


def result(snapshot: Snapshot, wish: Wish) -> dict[str, Any]:
    """Return the XCom of a task whose wish is fulfilled."""
    state = snapshot.state
    if wish.goal.rest:
        stop = next((r for r in reversed(state.requests.values()) if r.wish == wish.id), None)
        request = stop.id if stop is not None and stop.stage is RequestStage.DONE else ""
        return {
            "stream": snapshot.stream,
            "stopped": True,
            "holder": "",
            "note": snapshot.holder_sentence,
            "request": request,
        }
    if wish.goal is Goal.STAND_BY:
        live = [d.id for d in state.family(wish.family) if snapshot.candidate(d.id) or snapshot.holds(d.id)]
        return standby_result(snapshot, live[-1] if live else state.family(wish.family)[-1].id)
    request = _request(snapshot, wish)
    more = {"adopted": True} if any(wish.option(each) for each in ("adopts", "job", "confirmed_by")) else {}
    return {**snapshot.holder_result(snapshot.holding), "request": request, "family": wish.family, **more}


def standby_result(snapshot: Snapshot, deployment: str) -> dict[str, Any]:
    """Return the XCom of a task that brought up a standby."""
    found: Incarnation | None = snapshot.candidate(deployment)
    return {
        **snapshot.holder_result(deployment),
        "family": snapshot.state.deployments[deployment].family,
        "incarnation": found.id if found else "",
        "rehearsal": dict(found.rehearsal) if found else {},
    }


def _request(snapshot: Snapshot, wish: Wish) -> str:
    """The request by which the holder came to hold for a wish; empty: it held before."""
    held = snapshot.acquisitions()
    last = held[-1] if held else None
    return str(last["request"]) if last is not None and last.seq > wish.seq else ""


def _first_batch(scene: Scene, wish: Wish) -> Step | None:
    """Wait up to FIRST_COMMIT_SECONDS for the first batch of a holder that has come to hold for a wish, so that the gap
    can be measured; Done after that. None: no driver has, or it has been so for longer.
    """
    snapshot, state = scene.snapshot, scene.state
    held = state.holding_deployment
    if held is None or state.holder is None or not held.fulfils(wish) or state.open_request is not None:
        return None
    acquired = next((r for r in reversed(snapshot.acquisitions()) if r["incarnation"] == state.holder), None)
    if acquired is None or acquired.seq < wish.seq:
        return None
    until = acquired.at + FIRST_COMMIT_SECONDS
    if snapshot.at >= until + FIRST_COMMIT_SECONDS:
        return None  # long ago: its driver may be dead
    known = scene.outcome is not None and scene.outcome.subject == state.holder
    # The first release of all leaves no gap, unless it follows a job.
    if known or snapshot.at >= until or not (snapshot.previous(held.id) or held.policy.adopts):
        return Done(result(snapshot, wish))
    queries = tuple(query["name"] for query in state.incarnations[state.holder].queries)
    return Wait(FirstCommits(state.holder, queries, until))

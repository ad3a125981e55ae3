"""Bring back a stream that lost its holder: what `next_step` says, as steps of an operator. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_stream_provider.hooks.author import Author
from airflow_stream_provider.hooks.goals import Signs
from airflow_stream_provider.hooks.outcome import Ended, Outcome
from airflow_stream_provider.hooks.plan import ANSWER_SECONDS, fence, fence_first, follow, stand_by
from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.hooks.steps import Append, Done, GiveUp, Skip, Step, Wait
from airflow_stream_provider.model.errors import HandOverFailed
from airflow_stream_provider.model.names import deployment_of
from airflow_stream_provider.model.observe import Need, coming_up, next_step
from airflow_stream_provider.model.policy import Policy
from airflow_stream_provider.model.record import Kind, Record
from airflow_stream_provider.model.rules import live_standby
from airflow_stream_provider.model.state import Deployment, StreamPhase

# A release that fails again and again is tried after 1, 2, 4 … minutes, up to about so often in this time.
HOUR = 3600.0
PAUSE_SECONDS = 60.0
# A deployment that has not been submitted for so long has lost the task that declared it.
ADOPT_SECONDS = 60.0


def revive(view: Snapshot, author: Author, outcome: Outcome | None, before: Mapping[str, int]) -> Step:
    """Return the next step of a watch; Done when a driver that lives holds, Skip when nothing is to be done.

    Any number of watches may do this at a time, and be killed at any moment: each step is decided from the log, and
    written only if the log has not changed since.

    :param before: counters of the heartbeats some time ago; a driver whose counter has changed since lives.
    """
    state = view.state
    alive: dict[str, bool | None] = {
        name: True for name, counter in before.items() if name in state.incarnations and view.counter(name) > counter
    }
    if outcome is not None and outcome.about(Ended.REACHED, Signs.SUBJECT):
        alive.update(outcome.evidence)
    first = fence_first(view, outcome)
    if first is not None:
        return first
    coming = coming_up(state)
    alive.update({d.id: False for d in coming if d.id in view.drivers and view.drivers[d.id].gone})
    step = next_step(state, alive, view.at)
    if step.need is Need.FENCE:
        return fence(view, step.subject, outcome, step.why)
    if step.need is Need.ABORT:
        return Append(Kind.ABORTED, {"id": step.subject, "reason": step.why})
    if step.need is Need.REQUEST:
        return _appoint(view, author, step.subject, step.why)
    if step.need is Need.FAIL:
        return Append(Kind.FAILED, {"deployment": step.subject, "reason": step.why, "error": ""})
    if step.need is Need.DECLARE:
        return _again(view, author, state.deployments[step.subject], step.why)
    return _rest(view, author, outcome, alive, coming)


def _rest(
    view: Snapshot,
    author: Author,
    outcome: Outcome | None,
    alive: Mapping[str, bool | None],
    coming: Sequence[Deployment],
) -> Step:
    """Nothing is to be done as far as is known: see what is not known, and what is on its way."""
    state = view.state
    watched: tuple[str, ...]
    if state.open_request is not None:
        return follow(view, author, state.open_request, outcome)
    if state.holder is not None:
        watched = (state.holder,)
    elif state.phase in (StreamPhase.DOWN, StreamPhase.FAILED):
        watched = tuple(i.id for i in state.standbys() if live_standby(state, i.id))
    else:
        return Skip(f"Nobody is to run it (it is {state.phase.value}).")
    unknown = {name: view.counter(name) for name in watched if alive.get(name) is None}
    if unknown:
        lease = max(Policy.from_json(state.deployments[deployment_of(n)].policy).lease_seconds for n in unknown)
        return Wait(Signs(unknown, lease))
    if state.holder is None:
        for deployment in coming:
            late = view.at > deployment.declared_at + ADOPT_SECONDS
            if not deployment.submission and not late and not _by_watch(_declared(view, deployment.id), author):
                return Skip(f"{deployment.id} is about to be submitted.")
            # Whoever declared it may submit it at this moment too: of two submissions one is taken back.
            return stand_by(view, deployment.id, outcome)
    return Done({"stream": view.stream, "holder": view.holder, "phase": state.phase.value})


def _appoint(view: Snapshot, author: Author, standby: str, why: str) -> Step:
    policy = Policy.from_json(view.state.deployments[deployment_of(standby)].policy)
    tries = sum(request.by == author.by for request in view.state.requests.values())
    fields = {
        "id": author.request("revive", standby, tries),
        "to": standby,
        "expires": view.at + policy.boundary_seconds + ANSWER_SECONDS,
        "reason": why,
    }
    return Append(Kind.REQUESTED, fields)


def _again(view: Snapshot, author: Author, last: Deployment, why: str) -> Step:
    """Declare the release anew, unless that was tried just now and did not help."""
    release, again = last.release, author.deployment(view.stream, last.release["version"])
    tried = view.state.deployments.get(again)
    if tried is not None:
        return GiveUp(
            HandOverFailed(
                f"Release {release['version']} was started again and {tried.ended}: {tried.reason} "
                f"{view.holder_sentence}",
                todo="The next runs try on, ever more seldom. Correct the release, then upgrade to it.",
                deployment=again,
            )
        )
    tries = [r.at for r in view.records if _by_watch(r, author) and r.at > view.at - HOUR]
    wait = PAUSE_SECONDS * 2 ** (len(tries) - 1) if tries else 0.0
    if tries and view.at < tries[-1] + wait:
        return Skip(
            f"Started {len(tries)} times within an hour, in vain. The next try comes in "
            f"{tries[-1] + wait - view.at:.0f} s. {view.holder_sentence}"
        )
    fields = {"deployment": again, "release": dict(release), "policy": dict(last.policy), "reason": why}
    return Append(Kind.DECLARED, fields)


def _by_watch(record: Record, author: Author) -> bool:
    """Whether a run of this watch declared it."""
    return record.kind == Kind.DECLARED and record.by.startswith(f"airflow:{author.dag_id}/")


def drivers_of_interest(view: Snapshot) -> tuple[str, ...]:
    """Return the deployments that `revive` needs to see on the cluster: those on their way while nobody holds."""
    return () if view.state.holder else tuple(d.id for d in coming_up(view.state) if view.submission(d.id))


def _declared(view: Snapshot, deployment: str) -> Record:
    return next(r for r in view.records if r.kind == Kind.DECLARED and r["deployment"] == deployment)

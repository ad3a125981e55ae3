"""Give the stream back to the release that held it before.

`no_way_back` decides whether it can be, for the plan of a roll-back, the command line and the form.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from airflow_stream_provider.lifecycle.errors import HandOverFailed, RehearsalRefused
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import DeploymentEnd, RequestStage
from airflow_stream_provider.planning.descent import family
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import declare_again, stand_by
from airflow_stream_provider.planning.start import end_lost, own_tries
from airflow_stream_provider.planning.steps import Append, GiveUp, Skip, Step, TaskIdentity
from airflow_stream_provider.planning.take_over import follow, take_over
from airflow_stream_provider.planning.waits import WaitOutcome

WHAT_HELPS = (
    "Upgrade to a release that you trust, with the Spark and the settings of this one. Or upgrade to the old release: "
    "its rehearsal says whether it can read the checkpoint, and until then nothing changes."
)


def no_way_back(snapshot: Snapshot, bad: str) -> str:
    """Return why the stream cannot be given back to the release before this deployment; empty if nothing is against it.

    It goes by what the rehearsals of the release have seen, and counts as soon as one of its drivers has held: it may
    have written its first file since.
    """
    state = snapshot.state
    held = [driver for each in sorted(family(state, bad)) for driver in state.of_deployment(each) if driver.epoch]
    said = [sentence for driver in held for sentence in _one_way(snapshot, driver.id)]
    if not said:
        return ""
    release = state.deployments[bad].release
    return (
        f"There is no way back from release {release.version} ({bad}): {' '.join(dict.fromkeys(said))} The release "
        "before may not be able to read that. That was accepted when it was deployed (`no_way_back`)."
    )


def _one_way(snapshot: Snapshot, driver: str) -> Iterable[str]:
    """Yield what a driver's rehearsals have seen: the first is in the log, a later one in its heartbeat alone."""
    beat = snapshot.heartbeats.get(driver)
    for summary in (snapshot.state.incarnations[driver].rehearsal, beat.rehearsal if beat else {}):
        found = summary.get("one_way")
        yield from map(str, found if isinstance(found, (list, tuple)) else ())


def roll_back(
    snapshot: Snapshot,
    identity: TaskIdentity,
    bad: str,
    outcome: WaitOutcome | None,
    reason: str,
    *,
    fault_found: bool = True,
) -> Step:
    """Give the stream back to the deployment that held it before `bad`.

    While that is warm, by a hand-over; else its release is declared again and brought up. A deployment of `bad` that
    the watch has declared again is as bad. Skip when `bad` never held or did not hold last, or when no release ran
    before it; but a stream that this run has stopped is started again. One that was stopped otherwise is not. Gives up
    where the release before may not be able to read the checkpoint any more.

    :param bad: empty when the run declared nothing.
    :param fault_found: False: nothing was found wrong with `bad`, so it stays if it holds, and this gives up.
    """
    state = snapshot.state
    done = [r for r in state.requests.values() if r.by == identity.by and r.stage is RequestStage.DONE]
    if done and done[-1].to:
        return take_over(snapshot, identity, deployment_of(done[-1].to), outcome, reason, escalate=True)
    request = state.open_request
    if request is not None and request.to is None and request.by.startswith(identity.run):
        return follow(snapshot, request, outcome)  # the run's own stop: the holder may still carry it out
    bads = family(state, bad) if bad else frozenset()
    previous = snapshot.previous(bad)
    why_not = _nothing_to_do(snapshot, identity, bad, bads)
    if why_not:
        return _end_own(snapshot, identity) or Skip(why_not)
    if not previous:
        return Skip(f"No release ran before {bad}, so there is none to go back to. {snapshot.holder_sentence}")
    if snapshot.holding in bads and not fault_found:
        return GiveUp(_no_fault(snapshot, snapshot.holding))
    closed = no_way_back(snapshot, bad)
    if closed:
        return GiveUp(HandOverFailed(f"{closed} {snapshot.holder_sentence}", next_step=WHAT_HELPS, deployment=bad))
    step = _put_aside(snapshot, bads, outcome, reason)
    if step is not None:
        return step
    own = own_tries(state, identity, snapshot.stream, state.deployments[previous].release.version)
    again = own[-1]
    warm = next((d for d in (previous, again) if snapshot.candidate(d)), "")
    if warm:
        return take_over(snapshot, identity, warm, outcome, reason, escalate=True)
    step = end_lost(snapshot, own, outcome)
    if step is not None:
        return step
    if again in state.deployments:
        return _not_readable(snapshot, again) or stand_by(snapshot, again, outcome)
    return declare_again(snapshot, again, previous, reason, instead_of=bad)


def _not_readable(snapshot: Snapshot, again: str) -> GiveUp | None:
    """Give up when the release before was started again in vain: as a rule it cannot read the checkpoint."""
    tried = snapshot.state.deployments[again]
    if tried.ended is not DeploymentEnd.FAILED:
        return None
    return GiveUp(
        RehearsalRefused(
            f"Release {tried.release.version} ({again}), which held before, was started again and failed: "
            f"{snapshot.why_ended(again) or 'no reason given'} {snapshot.holder_sentence}",
            next_step="If it cannot read the checkpoint as it is now: redeploy or upgrade to a release that can, or "
            "put a back-up of the checkpoint back, with the stream stopped. Else roll back once more, in a new run.",
            deployment=again,
        ),
        log_of=snapshot.log_of_failed(again),
    )


def _nothing_to_do(snapshot: Snapshot, identity: TaskIdentity, bad: str, bads: frozenset[str]) -> str:
    """Return why nothing is rolled back; empty when something is."""
    state = snapshot.state
    held = any(deployment_of(record["incarnation"]) == bad for record in snapshot.acquisitions())
    asked = any(request.by.startswith(identity.run) for request in state.requests.values())
    nothing = f"Nothing to roll back: {snapshot.holder_sentence}"
    if (snapshot.holding and snapshot.holding not in bads) or not (held or asked):
        return nothing
    if snapshot.holding:
        return ""
    changes = (r for r in reversed(state.requests.values()) if r.stage in (RequestStage.DONE, RequestStage.TAKEN_BACK))
    stops = list(takewhile(lambda r: r.to is None, changes))
    for stop in stops:
        if not stop.by.startswith(identity.run):
            return (
                f"The stream was stopped by {stop.by} ({stop.reason or 'no reason given'}), and stays so. "
                "To run it again, start it with the release that you want (`airflow streams start`, or a new upgrade)."
            )
    if stops:  # all of them are this run's
        return "" if any(stop.source for stop in stops) else nothing
    # The stream has no holder for a moment, and `bad` did not hold last: the watch brings back what did.
    return "" if deployment_of(state.last_holder or "") in bads else nothing


def _end_own(snapshot: Snapshot, identity: TaskIdentity) -> Append | None:
    """End what this roll-back has declared again for nothing, as another driver holds; None when nothing is left."""
    for deployment in snapshot.live_deployments() if snapshot.holding else ():
        declared = snapshot.declared(deployment)
        needed = snapshot.state.has_held(deployment) or deployment in snapshot.in_request
        if declared.by == identity.by and declared.get("again") and not needed:
            reason = f"It is not needed: {snapshot.holding} holds."
            return Append(Kind.RETIRED, {"deployment": deployment, "reason": reason})
    return None


def _put_aside(snapshot: Snapshot, bads: frozenset[str], outcome: WaitOutcome | None, reason: str) -> Step | None:
    """End what could be appointed or brought up of the bad release, by the watch say; None when nothing is left.

    A request to a dead driver, such as a warm one that was asked first, is ended, too: were it left open, a second try
    would go on with what has failed.
    """
    request = snapshot.state.open_request
    asked = request.to if request is not None else None
    if request is not None and asked and (deployment_of(asked) in bads or not live_standby(snapshot.state, asked)):
        return follow(snapshot, request, outcome)
    for deployment in snapshot.live_deployments():
        fresh = not snapshot.state.of_deployment(deployment)
        if deployment in bads - snapshot.in_request and (fresh or snapshot.candidate(deployment)):
            return Append(Kind.RETIRED, {"deployment": deployment, "reason": f"Its release is rolled back: {reason}"})
    return None


def _no_fault(snapshot: Snapshot, deployment: str) -> HandOverFailed:
    return HandOverFailed(
        f"No fault of {deployment} was found; a task of this run failed for another reason, and says which. "
        f"It stays: {snapshot.holder_sentence}",
        next_step="Clear the task that failed: the soak then judges the release, and this task rolls back if it is no "
        "good. Or roll back by hand: `airflow streams roll-back`.",
        deployment=deployment,
    )

"""Leave out of a state what ended long ago, so that its size does not grow with the stream's age.

Every reader must leave out the same at the same record: the limits below belong to the log's format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from airflow_stream_provider.lifecycle.state import DeploymentEnd, Incarnation, IncarnationState, StreamState

# Kept of what has ended: so many deployments, and so many drivers beside those of these deployments.
DEPLOYMENTS_KEPT = 100
INCARNATIONS_KEPT = 100
REQUESTS_KEPT = 100
# So many ids of what was left out are remembered: a deployment is declared once, and a request is made once (rule 5).
IDS_KEPT = 10_000


# After every record whose number is a multiple of this.
PRUNE_EVERY = 100


def prune(state: StreamState) -> StreamState:
    """Return the state without what ended long ago and nothing refers to any more; now and then, by its number."""
    if state.seq % PRUNE_EVERY:
        return state
    needed = {i.id for i in _needed(state)}
    followed = {state.job.deployment} if state.job is not None else set()
    deployments = _old_deployments(state, {state.incarnations[name].deployment for name in needed} | followed)
    requests = list(state.requests)[:-REQUESTS_KEPT]
    over = [i.id for i in state.incarnations.values() if i.state.terminal and i.id not in needed]
    incarnations = {i.id for i in state.incarnations.values() if i.deployment in deployments}
    incarnations.update(over[:-INCARNATIONS_KEPT])
    if not (deployments or requests or incarnations):
        return state
    return replace(
        state,
        deployments={name: d for name, d in state.deployments.items() if name not in deployments},
        incarnations={name: i for name, i in state.incarnations.items() if name not in incarnations},
        requests={name: r for name, r in state.requests.items() if name not in requests},
        forgotten=(*state.forgotten, *deployments, *requests)[-IDS_KEPT:],
    )


def _old_deployments(state: StreamState, needed: Iterable[str]) -> dict[str, None]:
    """Return the deployments to leave out, in the order in which they ended."""
    ended = sorted((d for d in state.deployments.values() if d.ended), key=lambda d: d.ended_seq)
    return dict.fromkeys(d.id for d in ended[:-DEPLOYMENTS_KEPT] if d.id not in needed)


def _needed(state: StreamState) -> list[Incarnation]:
    """Return the drivers that a decision may still ask for.

    Those that may live or must be fenced; the last holder; the ones that the requests name; and what a recovery goes
    by: the last one whose deployment ended otherwise than by failing, and the last holder of each release that was run
    lately or is deployed now.
    """
    live = (IncarnationState.STANDBY, IncarnationState.HOLDER)
    named = {state.last_holder}
    for request in list(state.requests.values())[-REQUESTS_KEPT:]:
        named |= {request.to, request.source}
    needed = [
        i
        for i in state.incarnations.values()
        if i.id in named
        or i.state is IncarnationState.INTERRUPTED
        or (i.state in live and not state.deployments[i.deployment].ended)
    ]
    by_release: dict[str, Incarnation] = {}
    sound: list[Incarnation] = []
    for held in state.held:
        deployment = state.deployments[held.deployment]
        by_release.setdefault(deployment.release.hash, held)
        if not sound and deployment.ended not in (None, DeploymentEnd.FAILED):  # one that lives may fail yet
            sound.append(held)
    deployed = {d.release.hash for d in state.deployments.values() if not d.ended}
    late = set(list(by_release)[:DEPLOYMENTS_KEPT])
    return [*needed, *(by_release[each] for each in by_release if each in deployed | late), *sound]

"""Which deployments run a release that ran before, and which one a roll-back wants instead of the one that held last.

A deployment of a release that is declared again names the one before (`again`), and that of a roll-back the one that it
replaces (`instead_of`); see `stand_by.declare_again`.
"""

from __future__ import annotations

from airflow_stream_provider.lifecycle.state import Deployment, StreamState


def family(state: StreamState, deployment: str) -> frozenset[str]:
    """Return a deployment and those that were declared to run its release again, by the watch or a roll-back."""
    found = {deployment}
    for each in state.deployments.values():  # oldest first
        if each.declared.get("again") in found:
            found.add(each.id)
    return frozenset(found)


def origin(state: StreamState, deployment: str) -> str:
    """Return the deployment that this one runs the release of again, and that of that one, as far as it is known."""
    while True:
        declared = state.deployments[deployment].declared
        before = state.deployments.get(str(declared.get("again")))
        if before is None or before.declared.seq >= declared.seq:
            return deployment
        deployment = before.id


def asked_for_last(state: StreamState) -> Deployment | None:
    """Return the deployment that an upgrade or a start declared last, whatever became of it; None: there is none.

    A redeploy was not asked for by the YAML, and is left out.
    """
    own = (
        each
        for each in reversed(list(state.deployments.values()))
        if not each.declared.get("again") and each.declared.get("redeployed") is not True
    )
    return next(own, None)


def wanted_instead(state: StreamState) -> Deployment | None:
    """Return what a roll-back has declared instead of what held last, while it has not come to hold; or None.

    A roll-back is given up when what it declared ends while what it wanted to replace holds on, and when that is put in
    charge once more.
    """
    last = state.last_driver
    if last is None:
        return None
    for each in reversed(list(state.deployments.values())):
        bad = each.declared.get("instead_of")
        done = each.declared.seq < state.held_from or state.has_held(each.id)
        given_up = each.ended and (state.holder is not None or each.ended_seq < state.held_to)
        if bad and not done and not given_up and last.deployment in family(state, bad):
            return each
    return None


def unwanted(state: StreamState) -> frozenset[str]:
    """Return the deployments that a roll-back which is under way has put aside."""
    chosen = wanted_instead(state)
    return frozenset() if chosen is None else family(state, chosen.declared["instead_of"])

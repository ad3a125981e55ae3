"""Which release runs a stream that has no holder: the wished one, or for a while the one that was to hold before it."""

from __future__ import annotations

from typing import NamedTuple

from airflow_stream_provider.lifecycle.state import Deployment, DeploymentEnd, StreamState
from airflow_stream_provider.lifecycle.wish import Wish

# So many drivers are lost one after the other, or hand-overs missed, before a wish that a holder can wait for is given
# up, and before another release has its turn: a release may end each time without a word, too.
TRIES = 3
# A wish whose release has never committed is tried in turn with the release before for a day, as an outage may have
# been to blame; then only that one is.
OPEN_SECONDS = 86_400.0


class Family(NamedTuple):
    """The family of wishes whose release is run now, and the reason, as a sentence."""

    id: str
    why: str = ""


def choose(state: StreamState, wish: Wish, now: float) -> Family:
    """Return the family to run now.

    An outage does not bring back an older release. One follows, and takes turns with the wished one after TRIES that
    did not come to hold, when the wished one never commits (`Proof.never`), or has never held and failed TRIES times.
    It runs alone while a person has not approved the wished one.
    A roll-back does not go back to what it rolls back from before it has come to hold.

    :param now: seconds since 1970.
    """
    first = Family(wish.family)
    never = never_commits(state, wish.family)
    sound = state.has_run(wish.before) and not never_commits(state, wish.before)
    other = wish.before if sound else _newest_sound(state, wish.family) if never else ""
    if not other or (wish.back and state.held_from < wish.seq):
        return first
    in_place = f"Release {named(state, other)} runs in place of release {named(state, wish.family)}, "
    if _rewinds(state, wish.family):
        return Family(other, f"{in_place}which reads records again, and can begin only where another one stops.")
    if unapproved(state, wish):
        return Family(other, f"{in_place}which a person has to approve.")
    if not never and state.has_run(wish.family):
        return first
    why = f"{in_place}which {'has never committed a batch' if never else 'does not come up'}."
    if never and now > wish.at + OPEN_SECONDS:
        return Family(other, why)
    order = (other, wish.family) if never else (wish.family, other)
    return first if _turn(state, wish, *order) == wish.family else Family(other, why)


def unapproved(state: StreamState, wish: Wish) -> bool:
    """Return whether a person has to approve the release of a wish (`upgrade.approval`), and has not."""
    origin = state.wishes.get(wish.family, wish)
    return bool(origin.option("approval")) and not wish.approver and not state.has_run(wish.family)


def coming_up(state: StreamState) -> list[Deployment]:
    """Return the deployments that live and have no driver in the log that may come to hold, oldest first."""
    live = (each for each in state.deployments.values() if not each.ended)
    return [each for each in live if all(i.state.terminal for i in state.of_deployment(each.id))]


def tried_instead(state: StreamState, now: float) -> str:
    """Return a sentence on the release that runs, or is tried, in place of the wished one, and why; empty: none is."""
    if state.wish is None or state.wish.goal.rest:
        return ""
    return choose(state, state.wish, now).why


def never_commits(state: StreamState, family: str) -> bool:
    """Return whether a release has held, and counts as one that never commits a batch (`Proof.never`)."""
    held = [i for i in state.held if state.deployments[i.deployment].family == family]
    return bool(held) and held[0].proof.never


def _newest_sound(state: StreamState, but: str) -> str:
    """The family that held last of those that have committed, or may have; empty: there is none."""
    families = dict.fromkeys(state.deployments[i.deployment].family for i in state.held)
    return next((each for each in families if each != but and not never_commits(state, each)), "")


def _rewinds(state: StreamState, family: str) -> bool:
    """Whether a release reads records again when it first holds, and it is not known after which batch."""
    origin = state.wishes.get(family)
    asks = origin is not None and origin.option("rewind") is not None
    return asks and not state.has_run(family) and not state.ends


def _turn(state: StreamState, wish: Wish, first: str, later: str) -> str:
    """Return whose turn it is: the other's after TRIES one after the other that have not come to hold."""
    since = max(state.held_to, wish.seq)
    tries = [d.family for d in state.deployments.values() if _failed_since(d, since) and d.family in (first, later)]
    if not tries:
        return first
    over = tries[-TRIES:] == [tries[-1]] * TRIES
    return tries[-1] if not over else later if tries[-1] == first else first


def _failed_since(deployment: Deployment, seq: int) -> bool:
    return deployment.declared.seq > seq and deployment.ended is DeploymentEnd.FAILED


def version_of(state: StreamState, family: str) -> str:
    """Return the version of the release of a family of wishes, also before a driver of it was declared."""
    known, origin = state.family(family), state.wishes.get(family)
    if known:
        return known[-1].release.version
    release = (origin.option("release") or {}) if origin is not None else {}
    return str(release.get("version", family))


def named(state: StreamState, family: str) -> str:
    """Return the version of the release of a family, and its last deployment, for people."""
    known = state.family(family)
    return version_of(state, family) + (f" ({known[-1].id})" if known else "")

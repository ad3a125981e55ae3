"""The gates in front of a change of holder: why a release may not take over now. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.state import Incarnation, StreamState
from airflow_stream_provider.lifecycle.wish import Goal, Wish
from airflow_stream_provider.planning.choice import never_commits
from airflow_stream_provider.planning.job import has_run_since
from airflow_stream_provider.planning.judgement import broken, judge_rehearsal
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot

WHAT_HELPS = (
    "Upgrade to a release that you trust, with the Spark and the settings of this one. Or upgrade to the old release: "
    "its rehearsal says whether it can read the checkpoint, and until then nothing changes."
)


def closed(scene: Scene, wish: Wish, standby: Incarnation | None) -> HandOverFailed | None:
    """Return why the release of a wish may not come to hold now; None: nothing is against it.

    :param standby: the driver that is to take over from a holder that lives; None: none stands by yet, or none holds.
    """
    origin = scene.state.wishes.get(wish.family, wish)
    if origin.only_looks:
        return HandOverFailed(
            f"{_named(wish, origin)} was brought up for a trial, or to look for bad records, and never comes to hold. "
            f"{scene.snapshot.holder_sentence}",
            next_step="Upgrade with what was tried, if it was better.",
        )
    follows = origin.adopts and not scene.state.has_run(wish.family)
    if follows and has_run_since(scene.state, wish):
        return HandOverFailed(scene.snapshot.holder_sentence, next_step="There is no job to follow any more: start it.")
    if wish.back or (scene.state.holder is not None and scene.state.has_run(wish.family)):
        why = no_way_back_to(scene.snapshot, wish.family)
        if why or wish.back:
            return HandOverFailed(f"{why} {scene.snapshot.holder_sentence}", next_step=WHAT_HELPS) if why else None
    if scene.state.holder is not None and wish.seq < scene.state.held_from and never_commits(scene.state, wish.family):
        return HandOverFailed(
            f"The release that is to hold has never committed a batch, and another one runs in its place. "
            f"{scene.snapshot.holder_sentence}",
            next_step="Correct it and upgrade, or roll back: then what runs is what is wanted.",
        )
    if scene.state.has_run(wish.family):
        return None
    if origin.option("approval") and not wish.approver and not _starts_proven(scene.state, origin):
        return HandOverFailed(
            f"{_named(wish, origin)} has never held the stream, and a person has to approve it (`upgrade.approval`).",
            next_step="Upgrade the stream to it, and answer the question in Airflow; or call it off.",
        )
    if wish.approved:
        return None
    doubts = () if standby is None else judge_rehearsal(scene.snapshot, standby, origin.option("max_seconds")).reasons
    if not doubts or broken(scene.snapshot, lost=False) or scene.hangs:
        return None
    return HandOverFailed(
        f"{_named(wish, origin)} waits for a person's approval, because its rehearsal has not passed: "
        f"{' '.join(doubts)}",
        next_step="Answer the question in Airflow, or call it off.",
    )


def _starts_proven(state: StreamState, origin: Wish) -> bool:
    """Whether a start or a restart is for a release that has held before."""
    hash = (origin.option("release") or {}).get("hash")
    return origin.goal is Goal.HOLD and any(state.deployments[i.deployment].release.hash == hash for i in state.held)


def _named(wish: Wish, origin: Wish) -> str:
    release = origin.option("release") or {}
    return f"Release {release.get('version', wish.family)}"


def no_way_back_to(snapshot: Snapshot, family: str) -> str:
    """Return why the stream cannot be given back to the release of a family of wishes; empty if nothing is against it.

    It goes by what the rehearsals of the releases have seen that held since, and counts as soon as one of their drivers
    has held: it may have written its first file.
    """
    state = snapshot.state
    own = [each.epoch for each in state.held if state.deployments[each.deployment].family == family]
    later = [each for each in state.held if each.epoch > max(own, default=0)]
    said = [sentence for driver in later for sentence in _one_way(snapshot, driver.id)]
    if not said:
        return ""
    bad = state.deployments[later[0].deployment]
    return (
        f"There is no way back from release {bad.release.version} ({bad.id}): {' '.join(dict.fromkeys(said))} The "
        "release before may not be able to read that. That was accepted when it was deployed (`no_way_back`)."
    )


def _one_way(snapshot: Snapshot, driver: str) -> Iterable[str]:
    """Yield what a driver's rehearsals have seen: the first is in the log, a later one in its heartbeat alone."""
    beat = snapshot.heartbeats.get(driver)
    for summary in (snapshot.state.incarnations[driver].rehearsal, beat.rehearsal if beat else {}):
        found = summary.get("one_way")
        yield from map(str, found if isinstance(found, (list, tuple)) else ())

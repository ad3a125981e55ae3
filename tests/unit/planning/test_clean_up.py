"""What may go is what nobody can come back to; a year of upgrades and crash loops leaves a bounded number."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.retire import KEPT_RELEASES, Stored, expendable, settled
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    RUNNING,
    declared,
    failed,
    fenced,
    hash_of,
    play,
    released,
    retired,
    standby,
)


def deployments(count: int, state: StreamState) -> StreamState:
    """Releases of which none ever holds: each comes up and is retired, or fails."""
    for number in range(count):
        name = f"orders-{number}-cccc.00000001"
        end = failed(name) if number % 2 else retired(f"orders-{number}-cccc")
        state = play([declared(f"orders-{number}-cccc"), standby(name), end], state)
    return state


def everything(state: StreamState) -> Stored:
    """All that these deployments wrote; in these stories each has a release of its own."""
    return Stored(frozenset(state.incarnations), frozenset(d.release.hash for d in state.deployments.values()))


def kept(state: StreamState) -> Stored:
    stored = everything(state)
    gone = expendable(state, stored)
    return Stored(stored.heartbeats - gone.heartbeats, stored.releases - gone.releases)


def test_a_thousand_releases_that_were_no_good_do_not_push_out_the_one_that_runs() -> None:
    state = deployments(1000, play(RUNNING))
    last = {hash_of(f"orders-{number}-cccc") for number in range(1000 - KEPT_RELEASES, 1000)}
    holder = state.holding_deployment
    assert holder is not None
    assert kept(state) == Stored(frozenset({OLD}), frozenset({holder.release.hash, *last, *_not_ended(state)}))


def _not_ended(state: StreamState) -> set[str]:
    return {d.release.hash for d in state.deployments.values() if not d.ended}


def test_the_standby_and_the_release_to_go_back_to_stay() -> None:
    for records in (PREPARED, READY, HANDED_OVER):
        state = deployments(100, play(records))
        left = kept(state)
        assert {i.id for i in state.standbys()} | {state.holder} <= left.heartbeats | {None}
        assert {state.deployments[i.deployment].release.hash for i in state.incarnations.values() if i.epoch} <= (
            left.releases
        )


def test_one_that_held_last_and_one_that_must_be_fenced_stay() -> None:
    ended = deployments(100, play([*RUNNING, failed(OLD)]))
    assert kept(ended).heartbeats == {OLD}
    interrupted = deployments(100, play([*RUNNING, released(OLD, None, None, "interrupted")]))
    assert OLD in kept(interrupted).heartbeats
    dead = play([fenced(OLD)], interrupted)
    assert kept(dead).heartbeats == {OLD}, "it was the last holder"


def test_what_no_record_names_any_more_goes() -> None:
    state = play(RUNNING)
    gone = expendable(state, Stored(frozenset({NEW + "0", OLD}), frozenset({"f" * 64})))
    assert gone == Stored(frozenset({NEW + "0"}), frozenset({"f" * 64}))


def test_a_deployment_is_settled_once_its_end_is_in_the_log_and_nobody_is_to_be_fenced() -> None:
    assert settled(play(PREPARED)) == settled(play(HANDED_OVER)) == ()
    assert settled(play([*HANDED_OVER, retired(OLD_DEPLOYMENT)])) == (OLD_DEPLOYMENT,)
    assert settled(play(INTERRUPTED)) == ()
    assert settled(play([*INTERRUPTED, fenced(OLD)])) == (OLD_DEPLOYMENT,)
    assert settled(play([*RUNNING, failed(OLD)])) == (OLD_DEPLOYMENT,)

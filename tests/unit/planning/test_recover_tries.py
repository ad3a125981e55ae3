"""How often a stream is brought back that does not stay up, and with which release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.recover import recover
from airflow_stream_provider.planning.recovery_decision import release_to_run
from airflow_stream_provider.planning.steps import Append, GiveUp, Skip, Submit, TaskIdentity
from tests.support.revivals import AGAIN, DOWN, ME, again, failing, held, take
from tests.support.snapshots import appended, snapshot
from tests.support.story import (
    HANDED_OVER,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    failed,
    fenced,
    hash_of,
    play,
    released,
    retired,
    submitted,
)


def test_one_run_tries_once_and_the_next_ones_ever_more_seldom() -> None:
    tried = [*DOWN, again(), submitted(AGAIN), failed(None, AGAIN)]
    step = take(*tried)
    assert isinstance(step, GiveUp)
    assert "it broke" in str(step.error)
    assert step.log_of == AGAIN, "its driver has not said why"
    other = TaskIdentity("streams__revive", "next", "revive")
    for at, kind in ((110.0, Skip), (161.0, Append)):
        assert isinstance(recover(snapshot(*tried, at=at), other, None, {}), kind)
    third = other.deployment("orders", "1")
    twice = [*tried, again(161.0, third, "next"), failed(None, third)]
    last = TaskIdentity("streams__revive", "last", "revive")
    for at, kind in ((161.0 + 119.0, Skip), (161.0 + 121.0, Append)):
        assert isinstance(recover(snapshot(*twice, at=at), last, None, {}), kind)


def test_the_pauses_grow_to_five_minutes_and_no_further() -> None:
    story = list(DOWN)
    for number in range(20):
        name = TaskIdentity("streams__revive", f"r{number}", "revive").deployment("orders", "1")
        story += [again(200.0 + 300 * number, name, f"r{number}"), failed(None, name)]
    tried = 200.0 + 300 * 19
    for at, kind in ((tried + 299.0, Skip), (tried + 301.0, Append)):
        assert isinstance(take(*story, at=at), kind)


def test_a_machine_whose_clock_is_ahead_blocks_nobody() -> None:
    tomorrow = again(at=100.0 + 86400.0, deployment="orders-1-eeee", run="earlier")
    assert appended(take(*DOWN, tomorrow, failed(None, "orders-1-eeee"))) == ("declared",)
    theirs = replace(tomorrow, by="airflow:orders__upgrade/x/roll_back")
    assert take(*DOWN, theirs) == Submit("orders-1-eeee"), "nobody submits it"


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [(7, 1, Append), (7, 0, Skip), (7, None, Skip), (None, None, Skip)],
    ids=["proven", "idle", "half", "unproven"],
)
def test_only_what_follows_a_holder_that_has_committed_counts_as_a_try(
    a: int | None, b: int | None, kind: type
) -> None:
    """Found by a chaos run: after three killed holders a stream stayed down for five minutes, and nothing was wrong."""
    killed = [*DOWN, *held(0, 200.0), *held(1, 300.0), *held(2, 400.0)]
    last = str(play(killed).last_holder)
    progress = (QueryProgress(name, batch=n, commits=(Commit(1.0),) if n else ()) for name, n in (("a", a), ("b", b)))
    beats = {last: Heartbeat(counter=9, epoch=4, queries=tuple(progress))}
    assert isinstance(recover(replace(snapshot(*killed, at=410.0), heartbeats=beats), ME, None, {}), kind)
    # It fails from then on: pauses of 1 and 2 minutes, whatever machines have died before.
    failing = [*killed]
    for number, pause in ((3, 60.0), (4, 120.0)):
        name = TaskIdentity("streams__revive", f"r{number}", "revive").deployment("orders", "1")
        tried = 500.0 + 100.0 * number
        failing += [again(tried, name, f"r{number}"), failed(None, name)]
        for left, then in ((1.0, Skip), (-1.0, Append)):
            found = replace(snapshot(*failing, at=tried + pause - left), heartbeats=beats)
            assert isinstance(recover(found, ME, None, {}), then)


@pytest.mark.parametrize(("committed", "version"), [(None, "2"), (False, "1"), (True, "2")])
def test_an_older_release_follows_one_that_failed_uncommitted(committed: bool | None, version: str) -> None:
    ended = [fenced(OLD), failed(None, OLD_DEPLOYMENT), failed(NEW, committed=committed)]
    step = take(*HANDED_OVER, *ended)
    assert isinstance(step, Append)
    assert step.fields["release"]["hash"] == hash_of({"1": OLD_DEPLOYMENT, "2": NEW_DEPLOYMENT}[version])


KILLED = [fenced(NEW, committed=False), failed(None, NEW_DEPLOYMENT)]


@pytest.mark.parametrize(
    ("ends", "tries", "release"),
    [
        (KILLED, 0, NEW_DEPLOYMENT),
        (KILLED, 1, OLD_DEPLOYMENT),
        ([released(NEW, None, None, committed=False), retired(NEW_DEPLOYMENT)], 1, OLD_DEPLOYMENT),
        ([fenced(NEW, committed=True), failed(None, NEW_DEPLOYMENT)], 129, NEW_DEPLOYMENT),
        ([fenced(NEW), failed(None, NEW_DEPLOYMENT)], 2, NEW_DEPLOYMENT),
        ([fenced(NEW), failed(None, NEW_DEPLOYMENT)], 3, OLD_DEPLOYMENT),
        ([released(NEW, None, None), retired(NEW_DEPLOYMENT)], 129, OLD_DEPLOYMENT),
        ([failed(NEW)], 0, NEW_DEPLOYMENT),
    ],
    ids=[
        "killed",
        "and fails",
        "drained",
        "had committed",
        "unknown",
        "fails 3 times",
        "for a day",
        "by an old driver",
    ],
)
def test_a_release_of_which_nobody_has_seen_a_commit_does_not_keep_the_older_one_out(
    ends: list[Record], tries: int, release: str
) -> None:
    """Found by a review: a holder that was killed before its first commit counted as a proof of its release."""
    state = play([*HANDED_OVER, *ends, *failing(tries)])
    assert (state.illegal_count, release_to_run(state, 300.0)) == (0, hash_of(release))


def test_an_outage_of_a_day_does_not_bring_back_an_older_release() -> None:
    """Found by a review: the holder that had proven the release was forgotten after a hundred tries in the outage."""
    state = play([*HANDED_OVER, fenced(NEW, committed=True), failed(None, NEW_DEPLOYMENT), *failing(120)])
    assert (state.illegal_count, state.epoch, NEW in state.incarnations) == (0, 122, False)
    assert release_to_run(state, 300.0) == hash_of(NEW_DEPLOYMENT)


def test_an_older_release_does_not_follow_one_that_was_killed_before_its_first_heartbeat_as_holder() -> None:
    killed = [*HANDED_OVER, retired(OLD_DEPLOYMENT), fenced(NEW), failed(None, NEW_DEPLOYMENT)]
    found = replace(snapshot(*killed), heartbeats={NEW: Heartbeat(counter=9, epoch=1)})
    step = recover(found, ME, None, {})
    assert isinstance(step, Append)
    assert step.fields["release"]["hash"] == hash_of(NEW_DEPLOYMENT)


def tried(number: int, at: float, *ends: Record) -> list[Record]:
    """A try of the watch that came to hold, and how it ended."""
    return [*held(number, at)[:6], *ends]


def driver_of(number: int) -> str:
    return str(held(number, 0.0)[5]["incarnation"])


def kind_at(story: list[Record], at: float, beats: dict[str, Heartbeat] | None = None) -> type:
    return type(recover(replace(snapshot(*story, at=at), heartbeats=beats or {}), ME, None, {}))


def test_errors_and_lost_machines_are_counted_apart() -> None:
    # Three tries that failed by themselves: a pause of four minutes. Then the machine of the fourth dies.
    errors = [*DOWN]
    for number in range(3):
        errors += tried(number, 200.0 + 300.0 * number, failed(driver_of(number)))
    assert kind_at(errors, 800.0 + 239.0) is Skip
    assert kind_at(errors, 800.0 + 241.0) is Append
    lost = [*errors, *tried(3, 1100.0, fenced(driver_of(3)), failed(None, deployment_of(driver_of(3))))]
    assert kind_at(lost, 1100.0 + 59.0) is Skip
    assert kind_at(lost, 1100.0 + 61.0) is Append
    # And the other way round: that one does not lengthen the pause after the next error.
    again_an_error = [*lost, *tried(4, 1400.0, failed(driver_of(4)))]
    assert kind_at(again_an_error, 1400.0 + 299.0) is Skip
    assert kind_at(again_an_error, 1400.0 + 301.0) is Append


@pytest.mark.parametrize(
    ("end", "ran", "kind"),
    [(failed, 20.0, Skip), (failed, 301.0, Append), (fenced, 20.0, Append)],
    ids=["fails soon each time", "a long good run", "its machine died"],
)
def test_a_commit_proves_a_release_unless_it_fails_soon_after(end: Any, ran: float, kind: type) -> None:
    story = list(DOWN)
    for number in range(3):
        over = [failed(None, deployment_of(driver_of(number)))] if end is fenced else []
        story += tried(number, 200.0 + 400.0 * number, end(driver_of(number)), *over)
    committed = tuple(QueryProgress(name, batch=7, commits=(Commit(1.0),)) for name in ("a", "b"))
    beats = {driver_of(2): Heartbeat(counter=9, epoch=4, at=1000.0 + ran, started_at=1000.0, queries=committed)}
    assert kind_at(story, 1000.0 + 100.0, beats) is kind

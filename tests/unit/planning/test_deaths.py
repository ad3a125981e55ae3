from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.planning.signs_of_life import Dead, DriversGone, JobGone
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.stream_health import HeartbeatAges
from airflow_stream_provider.planning.waits import Ended, Observations
from tests.support.looks import Watch, driver, seen
from tests.support.snapshots import BOTH, RUNNING, snapshot
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, failed, fenced
from tests.support.there import there


def test_a_driver_is_dead_only_when_both_the_cluster_and_the_heartbeat_say_so() -> None:
    condition, watch = Dead(OLD, 30.0), Watch()
    gone, stays = {OLD_DEPLOYMENT: driver(DriverState.KILLED, gone=True)}, {OLD_DEPLOYMENT: driver(DriverState.KILLED)}
    assert condition.check(seen(RUNNING, {OLD: 7}, gone), watch.seen) is None
    watch.now = 29.0
    assert condition.check(seen(RUNNING, {OLD: 7}, gone), watch.seen) is None
    watch.now = 31.0
    assert condition.check(seen(RUNNING, {OLD: 7}, stays), watch.seen) is None
    assert condition.check(seen(RUNNING, {OLD: 7}), watch.seen) is None
    confirmed = there(condition.check(seen(RUNNING, {OLD: 7}, gone), watch.seen))
    assert confirmed.about(Ended.DEAD, OLD)
    assert confirmed.evidence == {"driver": "killed", "submission": "driver-1", "silent_seconds": 31.0}
    assert confirmed.counters == {OLD: 7}


def test_a_driver_on_a_lost_machine_is_dead_only_when_it_and_its_executors_must_have_ended() -> None:
    condition, watch = Dead(OLD, 30.0, 600.0), Watch()
    lost = {OLD_DEPLOYMENT: DriverFacts("driver-1", DriverState.FAILED, lost=True)}
    for now in (0.0, 31.0, 631.0, 659.0):
        watch.now = now
        assert condition.check(seen(RUNNING, {OLD: 7}, lost), watch.seen) is None
    watch.now = 661.0
    confirmed = there(condition.check(seen(RUNNING, {OLD: 7}, lost), watch.seen))
    assert confirmed.about(Ended.DEAD, OLD)
    assert "machine is lost" in confirmed.reason


def test_a_driver_that_may_not_write_is_not_waited_for_on_a_lost_machine() -> None:
    condition, watch = Dead(NEW, 30.0, 600.0), Watch()
    lost = {NEW_DEPLOYMENT: DriverFacts("driver-1", DriverState.LOST, lost=True)}
    assert condition.check(seen(BOTH, {NEW: 7}, lost), watch.seen) is None
    watch.now = 31.0
    confirmed = there(condition.check(seen(BOTH, {NEW: 7}, lost), watch.seen))
    assert confirmed.about(Ended.DEAD, NEW)
    assert confirmed.evidence["may_write"] is False


def test_a_driver_that_the_ledger_can_refuse_is_waited_for_a_lease_on_a_lost_machine() -> None:
    condition, watch = Dead(OLD, 30.0, 600.0, ledger=True), Watch()
    lost = {OLD_DEPLOYMENT: DriverFacts("driver-1", DriverState.FAILED, lost=True)}
    stays = {OLD_DEPLOYMENT: driver(DriverState.RUNNING)}
    assert condition.check(seen(RUNNING, {OLD: 7}, lost), watch.seen) is None
    watch.now = 31.0
    assert condition.check(seen(RUNNING, {OLD: 7}, stays), watch.seen) is None
    confirmed = there(condition.check(seen(RUNNING, {OLD: 7}, lost), watch.seen))
    assert confirmed.about(Ended.DEAD, OLD)
    assert (confirmed.evidence["ledger"], confirmed.evidence["may_write"]) == (True, True)
    assert confirmed.reason == "its machine is lost, and the ledger of its sinks can refuse it"
    gone = {OLD_DEPLOYMENT: driver(DriverState.KILLED, gone=True)}
    assert "ledger" not in there(condition.check(seen(RUNNING, {OLD: 7}, gone), watch.seen)).evidence
    watch.now = 661.0
    assert "ledger" not in there(condition.check(seen(RUNNING, {OLD: 7}, lost), watch.seen)).evidence, "it has halted"


@pytest.mark.parametrize("state", [DriverState.RUNNING, DriverState.QUEUED, DriverState.KILLED])
def test_what_is_still_there_two_leases_after_its_kill_must_be_killed_again(state: DriverState) -> None:
    condition, watch = Dead(OLD, 30.0), Watch()
    stays = {OLD_DEPLOYMENT: driver(state)}
    # The machine was away when the kill came, or another driver of the deployment has come up since.
    assert condition.check(seen(RUNNING, {OLD: 7}, stays, at=110.0), watch.seen) is None
    assert condition.check(seen(RUNNING, {OLD: 8}, stays, at=169.0), watch.seen) is None
    assert there(condition.check(seen(RUNNING, {OLD: 9}, stays, at=171.0), watch.seen)).about(Ended.EXPIRED, OLD)


def test_single_looks_that_show_a_lost_driver_do_not_begin_its_silence_anew() -> None:
    condition, watch = Dead(OLD, 30.0, 600.0), Watch()
    lost = {OLD_DEPLOYMENT: DriverFacts("driver-1", DriverState.FAILED, lost=True)}
    stays = {OLD_DEPLOYMENT: driver(DriverState.FAILED)}
    for now in range(0, 660, 2):
        watch.now = float(now)
        # A worker that answers late, or a master that fails between two questions.
        facts = stays if now % 62 == 0 else lost
        assert condition.check(seen(RUNNING, {OLD: 7}, facts, at=110.0 + now), watch.seen) is None
    watch.now = 661.0
    assert there(condition.check(seen(RUNNING, {OLD: 7}, lost, at=771.0), watch.seen)).about(Ended.DEAD, OLD)


def test_a_cluster_that_does_not_answer_is_not_asked_to_kill_again() -> None:
    condition, watch = Dead(OLD, 30.0), Watch()
    unknown = {OLD_DEPLOYMENT: driver(DriverState.UNKNOWN)}
    for at in (110.0, 171.0):
        assert condition.check(seen(RUNNING, {OLD: 7}, unknown, at=at), watch.seen) is None


def test_nobody_waits_for_the_death_of_a_driver_that_another_has_fenced() -> None:
    # Another driver of its deployment may run on for ever.
    stays = {OLD_DEPLOYMENT: driver(DriverState.RUNNING)}
    over = there(Dead(OLD, 30.0).check(seen([*RUNNING, fenced(OLD)], {OLD: 7}, stays), Observations()))
    assert over.about(Ended.REACHED, OLD)


def test_one_that_stopped_inside_a_batch_is_waited_for_though_it_has_ended() -> None:
    torn = [*RUNNING, failed(OLD, boundary="interrupted")]
    assert snapshot(*torn).state.must_fence == (OLD,)
    gone = {OLD_DEPLOYMENT: driver(DriverState.KILLED, gone=True)}
    condition, watch = Dead(OLD, 30.0), Watch()
    assert condition.check(seen(torn, {OLD: 7}, gone), watch.seen) is None
    watch.now = 31.0
    assert there(condition.check(seen(torn, {OLD: 7}, gone), watch.seen)).about(Ended.DEAD, OLD)


def test_a_driver_that_does_not_hold_need_not_be_waited_for_on_a_lost_machine() -> None:
    lost = {NEW_DEPLOYMENT: DriverFacts("driver-1", DriverState.FAILED, lost=True)}
    over = there(DriversGone(NEW_DEPLOYMENT, 200.0).check(seen(BOTH, {}, lost), Observations()))
    assert over.ended is Ended.REACHED


def test_one_beat_starts_the_lease_anew() -> None:
    condition, watch = Dead(OLD, 30.0), Watch()
    gone = {OLD_DEPLOYMENT: driver(DriverState.KILLED, gone=True)}
    condition.check(seen(RUNNING, {OLD: 7}, gone), watch.seen)
    watch.now = 31.0
    assert condition.check(seen(RUNNING, {OLD: 8}, gone), watch.seen) is None
    watch.now = 60.0
    assert condition.check(seen(RUNNING, {OLD: 8}, gone), watch.seen) is None


def test_an_observer_that_could_not_look_forgets() -> None:
    condition, watch = Dead(OLD, 30.0), Watch()
    gone = {OLD_DEPLOYMENT: driver(DriverState.KILLED, gone=True)}
    condition.check(seen(RUNNING, {OLD: 7}, gone), watch.seen)
    watch.seen.ages = HeartbeatAges(lambda: watch.now)
    watch.now = 31.0
    assert condition.check(seen(RUNNING, {OLD: 7}, gone), watch.seen) is None


JOB = "driver-20261121023732-0002"
GONE = UnmanagedView(JOB, DriverState.KILLED)


@pytest.mark.parametrize(
    ("found", "ended"),
    [
        (GONE, Ended.REACHED),
        (UnmanagedView(JOB, DriverState.RUNNING), Ended.EXPIRED),
        (replace(GONE, remains=Remains(("Executor 0 is alive.",))), Ended.EXPIRED),
        (UnmanagedView(JOB, DriverState.LOST), Ended.UNKNOWN),
        (replace(GONE, remains=Remains((), ("Worker w is DEAD.",))), Ended.UNKNOWN),
    ],
)
def test_a_job_is_gone_when_its_cluster_says_so_and_is_not_waited_for_without_end(
    found: UnmanagedView, ended: Ended
) -> None:
    condition, memory = JobGone(JOB), Observations()
    assert condition.needs(None, memory).job == JOB
    looked = replace(snapshot(), job=found)
    first = condition.check(looked, memory)
    if ended is Ended.REACHED:
        assert first is not None
        assert first.about(ended, JOB)
        return
    assert first is None
    assert condition.check(replace(looked, at=looked.at + JobGone.PATIENCE), memory) is None
    assert there(condition.check(replace(looked, at=looked.at + JobGone.PATIENCE + 1), memory)).about(ended, JOB)

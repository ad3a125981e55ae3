from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Commit, QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.planning.conditions import (
    CONDITIONS,
    FirstCommits,
    InPhase,
    NextTry,
    Pause,
    RequestOver,
    Soaked,
    StandbyUp,
)
from airflow_stream_provider.planning.signs_of_life import Dead, DriversGone, JobGone, SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.soak import SoakLimits
from airflow_stream_provider.planning.waits import Condition, Ended, Observations, WaitOutcome, condition_from_json
from tests.support.looks import Watch, driver, seen
from tests.support.snapshots import ASKED, BOTH, RUNNING, UPGRADED
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    declared,
    failed,
    fenced,
    ready,
    record,
    released,
    requested,
    submitted,
    wanted,
)
from tests.support.there import there

ALL: list[Condition] = [
    StandbyUp("d"),
    RequestOver("r", 1.0, ("a", "b"), 30.0),
    Dead("i", 30.0),
    DriversGone("d", 5.0),
    JobGone("driver-1"),
    Pause("d", 1.0),
    NextTry("d", 1.0),
    FirstCommits("i", ("q",), 2.0),
    Soaked("d", 3.0, SoakLimits(LagLimits(5)).to_json(), "airflow:dag/run/"),
    SignsOfLife({"i": 7}, 30.0),
    InPhase(("running",), "2"),
]


def test_a_trigger_may_carry_each_condition() -> None:
    assert [type(condition) for condition in ALL] == list(CONDITIONS)


@pytest.mark.parametrize("condition", ALL, ids=lambda condition: type(condition).__name__)
def test_a_condition_survives_the_metadata_database(condition: Condition) -> None:
    assert condition_from_json(condition.to_json(), CONDITIONS) == condition
    assert condition.description


@pytest.mark.parametrize("condition", ALL, ids=lambda condition: type(condition).__name__)
def test_a_field_that_a_newer_version_has_added_is_left_out(condition: Condition) -> None:
    assert condition_from_json({**condition.to_json(), "later": {"any": 1}}, CONDITIONS) == condition


@pytest.mark.parametrize("data", [{}, {"condition": "Nothing"}, {"condition": "StandbyUp", "unknown": 1}])
def test_what_is_no_condition_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(StreamError):
        condition_from_json(data, CONDITIONS)


def test_standing_by_is_over_when_the_driver_is_up_or_dead() -> None:
    condition = StandbyUp(NEW_DEPLOYMENT)
    starting = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT)]
    for state in (DriverState.QUEUED, DriverState.RUNNING, DriverState.UNKNOWN):
        assert condition.check(seen(starting, {}, {NEW_DEPLOYMENT: driver(state)}), Observations()) is None
    for state in (DriverState.FAILED, DriverState.KILLED, DriverState.LOST, DriverState.FINISHED):
        ended = there(condition.check(seen(starting, {}, {NEW_DEPLOYMENT: driver(state)}), Observations()))
        assert ended.ended is Ended.GONE
    reserved = there(
        condition.check(seen(starting, {}, {NEW_DEPLOYMENT: driver(DriverState.RESERVED)}), Observations())
    )
    assert reserved.about(Ended.UNSENT, NEW_DEPLOYMENT)
    up = there(condition.check(seen(BOTH, {}), Observations()))
    assert (up.ended, up.reason) == (Ended.REACHED, "")
    # Found by a review: the log of the wait said of one that had failed that it was up and rehearsed.
    over = there(condition.check(seen([*starting, failed(None, NEW_DEPLOYMENT)], {}), Observations()))
    assert (over.ended, over.reason) == (Ended.REACHED, "it has ended (failed): it broke: Boom.")


def test_a_driver_that_is_there_and_says_nothing_for_a_minute_ends_the_wait() -> None:
    condition, starting = StandbyUp(NEW_DEPLOYMENT), [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT)]
    memory = Observations()

    def look(at: float, state: DriverState, beats: dict[str, int]) -> WaitOutcome | None:
        return condition.check(replace(seen(starting, beats, {NEW_DEPLOYMENT: driver(state)}), at=at), memory)

    assert look(0.0, DriverState.QUEUED, {}) is None
    assert look(59.0, DriverState.QUEUED, {}) is None
    assert there(look(60.0, DriverState.QUEUED, {})).about(Ended.EXPIRED, NEW_DEPLOYMENT)
    assert look(600.0, DriverState.RUNNING, {OLD: 5}) is None, "it has waited in the queue"
    assert look(659.0, DriverState.RUNNING, {OLD: 64}) is None
    assert there(look(660.0, DriverState.RUNNING, {OLD: 65})).about(Ended.EXPIRED, NEW_DEPLOYMENT)
    assert look(661.0, DriverState.RUNNING, {NEW: 1}) is None, "it has said who it is"
    assert look(720.0, DriverState.UNKNOWN, {}) is None


def test_a_request_is_watched_for_silence_and_expiry() -> None:
    condition, watch = RequestOver("mine", 200.0, (OLD, NEW), 30.0), Watch()
    beats = {OLD: 1, NEW: 1}
    assert condition.check(seen(ASKED, beats), watch.seen) is None
    assert condition.needs(seen(ASKED, beats), watch.seen).drivers == ()
    watch.now = 31.0
    moving = seen(ASKED, {OLD: 1, NEW: 9})
    assert condition.needs(moving, watch.seen).drivers == (OLD_DEPLOYMENT,)
    assert condition.check(moving, watch.seen) is None  # it may hold still because the folder is away
    dead = seen(ASKED, {OLD: 1, NEW: 10}, {OLD_DEPLOYMENT: driver(DriverState.FAILED)})
    assert there(condition.check(dead, watch.seen)).about(Ended.SILENT, OLD)
    watch.now = 61.0
    frozen = there(condition.check(seen(ASKED, {OLD: 1, NEW: 11}), watch.seen))
    assert frozen.about(Ended.SILENT, OLD)
    assert frozen.counters == {OLD: 1}


def test_a_request_expires_only_when_everybody_is_alive() -> None:
    condition, watch = RequestOver("mine", 200.0, (OLD, NEW), 30.0), Watch()
    late = seen(ASKED, {OLD: 1, NEW: 1}, at=201.0)
    assert there(condition.check(late, watch.seen)).about(Ended.EXPIRED, "mine")
    watch.now = 10.0
    assert condition.check(late, watch.seen) is None  # one is silent: that is judged first


def test_a_request_that_is_done_is_over() -> None:
    over = RequestOver("mine", 0.0, (OLD, NEW), 30.0).check(seen(UPGRADED, {}), Observations())
    assert over == WaitOutcome(Ended.REACHED, "mine")


@pytest.mark.parametrize("ended", [OLD, NEW])
def test_a_request_is_decided_anew_once_somebody_in_it_has_ended(ended: str) -> None:
    """Its heartbeat stands still for good: neither silence nor expiry would ever be found."""
    deployment = deployment_of(ended)
    torn = record("failed", deployment=deployment, incarnation=ended, reason="it broke", boundary="interrupted")
    over = RequestOver("mine", 200.0, (OLD, NEW), 30.0).check(seen([*ASKED, torn], {}), Observations())
    assert over == WaitOutcome(Ended.REACHED, "mine", f"{ended} has ended")


def behind(records: int) -> LagReport:
    partition = PartitionLag("in", 0, PartitionState.OK, committed=100, log_start=0, end=100 + records)
    return LagReport(200.0, (QueryLag("q", (partition,), seconds=float(records)),))


def test_a_soak_ends_good_bad_or_superseded() -> None:
    limits = SoakLimits(LagLimits(10), samples=2).to_json()
    condition, observations = Soaked(NEW_DEPLOYMENT, 200.0, limits, "airflow:dag/run/"), Observations()
    assert condition.needs(None, observations).lag
    for _ in range(3):
        assert condition.check(seen(UPGRADED, {NEW: 1}, lag=behind(0)), observations) is None
    assert condition.check(seen(UPGRADED, {NEW: 1}, lag=behind(0), at=201.0), observations) is None, (
        "it may have died just now"
    )
    good = there(condition.check(seen(UPGRADED, {NEW: 2}, lag=behind(0), at=202.0), observations))
    assert good.ended is Ended.REACHED
    assert not good.reason
    condition.check(seen(UPGRADED, {NEW: 1}, lag=behind(50), at=210.0), observations)
    assert condition.check(seen(UPGRADED, {NEW: 2}, lag=behind(55), at=220.0), observations) is None, (
        "the soak is over, but it is too early to say"
    )
    bad = there(condition.check(seen(UPGRADED, {NEW: 3}, lag=behind(60), at=240.0), observations))
    assert bad.ended is Ended.BAD
    assert "60 records" in bad.reason


def test_a_soak_whose_lag_was_never_known_does_not_end() -> None:
    limits = SoakLimits(LagLimits(10), samples=2).to_json()
    condition, observations = Soaked(NEW_DEPLOYMENT, 200.0, limits, "airflow:dag/run/"), Observations()
    unknown = LagReport(200.0, (QueryLag("q", (), problem="Kafka does not answer."),))
    for counter, lag in enumerate([None, unknown] * 10):
        look = committed(seen(UPGRADED, {NEW: counter}, lag=lag, at=300.0 + counter))
        assert condition.check(look, observations) is None
        assert "The lag is not known" in condition.problem(look)
    for counter, over in ((30, False), (31, True)):
        look = committed(seen(UPGRADED, {NEW: counter}, lag=behind(0), at=300.0 + counter))
        assert condition.problem(look) == ""
        assert (condition.check(look, observations) is not None) is over, "two looks are asked for"


def test_a_soak_of_queries_that_do_not_read_kafka_ends() -> None:
    limits = SoakLimits(LagLimits(10), samples=2).to_json()
    condition, observations = Soaked(NEW_DEPLOYMENT, 200.0, limits, "airflow:dag/run/"), Observations()
    looks = [seen(UPGRADED, {NEW: counter}, lag=LagReport(200.0, ()), at=300.0 + counter) for counter in range(4)]
    assert [condition.check(look, observations) for look in looks[:2]] == [None, None], "it may not have started"
    assert condition.check(committed(looks[2]), observations) is None
    assert condition.check(committed(looks[3]), observations) is not None


def committed(look: Snapshot) -> Snapshot:
    """The same, with a batch of NEW in its heartbeat."""
    beat = replace(look.heartbeats[NEW], queries=(QueryProgress("a", batch=1, commits=(Commit(1.0),)),))
    return replace(look, heartbeats={NEW: beat})


def test_a_soak_judges_the_age_of_the_oldest_record_too() -> None:
    limits = SoakLimits(LagLimits(max_seconds=30.0), samples=2).to_json()
    condition, observations = Soaked(NEW_DEPLOYMENT, 200.0, limits, "airflow:dag/run/"), Observations()
    assert condition.check(seen(UPGRADED, {NEW: 1}, lag=behind(40), at=165.0), observations) is None
    assert there(condition.check(seen(UPGRADED, {NEW: 1}, lag=behind(50), at=195.0), observations)).ended is Ended.BAD


def test_the_pause_before_the_next_try_lasts_whatever_the_lost_driver_has_said() -> None:
    for at, over in ((199.0, False), (200.0, True)):
        assert bool(NextTry(NEW_DEPLOYMENT, 200.0).check(seen(UPGRADED, {NEW: 1}, at=at), Observations())) is over
        assert Pause(NEW_DEPLOYMENT, 200.0).check(seen(UPGRADED, {NEW: 1}, at=at), Observations())


def test_the_first_commits_are_those_of_the_new_holder() -> None:
    """Found by a review: the gap was measured before them, by the batch that Spark names of an idle query."""
    condition, look = FirstCommits(NEW, ("a",), 200.0), seen(UPGRADED, {NEW: 1}, at=150.0)
    for commits, over in (((), False), ((Commit(1.0),), True)):
        beat = replace(look.heartbeats[NEW], queries=(QueryProgress("a", batch=7, commits=commits),))
        assert bool(condition.check(replace(look, heartbeats={NEW: beat}), Observations())) is over
    assert condition.check(seen(UPGRADED, {NEW: 1}, at=200.0), Observations()), "no records came in"


def test_a_new_observer_of_a_soak_that_is_over_judges_neither_good_nor_bad_at_once() -> None:
    limits = SoakLimits(LagLimits(10), samples=2).to_json()
    condition, observations = Soaked(NEW_DEPLOYMENT, 200.0, limits, "airflow:dag/run/"), Observations()
    for counter, at in enumerate((300.0, 310.0, 320.0)):
        assert condition.check(seen(UPGRADED, {NEW: counter}, lag=behind(50), at=at), observations) is None
    assert there(condition.check(seen(UPGRADED, {NEW: 9}, lag=behind(50), at=330.0), observations)).ended is Ended.BAD


@pytest.mark.parametrize(("by", "ended"), [("airflow:other/run/x", Ended.REACHED), ("airflow:dag/run/back", Ended.BAD)])
def test_whoever_took_over_since_is_judged_by_whose_wish_it_was(by: str, ended: Ended) -> None:
    after = [
        wanted("away", family="old", by=by),
        requested("x", OLD),
        ready("x", OLD),
        released(NEW, "x", OLD),
        acquired(OLD, "x", 3),
    ]
    condition = Soaked(NEW_DEPLOYMENT, 200.0, SoakLimits().to_json(), "airflow:dag/run/")
    assert there(condition.check(seen([*UPGRADED, *after], {}), Observations())).ended is ended


@pytest.mark.parametrize("end", [fenced(OLD), failed(OLD)])
def test_a_release_that_another_took_over_from_is_not_bad_because_nobody_holds_for_a_moment(end: Any) -> None:
    after = [wanted("away", family="old"), requested("x", OLD), ready("x", OLD), released(NEW, "x", OLD)]
    condition = Soaked(NEW_DEPLOYMENT, 200.0, SoakLimits().to_json(), "airflow:dag/run/")
    found = there(condition.check(seen([*UPGRADED, *after, acquired(OLD, "x", 3), end], {}), Observations()))
    assert (found.ended, "asks for something else since, by airflow" in found.reason) == (Ended.REACHED, True)


def test_a_phase_can_be_waited_for_with_its_release() -> None:
    assert InPhase(("running",), "1").check(seen(RUNNING, {}), Observations()) is not None
    assert InPhase(("running",), "2").check(seen(RUNNING, {}), Observations()) is None
    assert InPhase(("stopped", "failed")).check(seen(RUNNING, {}), Observations()) is None

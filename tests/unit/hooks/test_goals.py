from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.hooks.goals import (
    Dead,
    DriversGone,
    FirstCommits,
    Goal,
    InPhase,
    Memory,
    Pause,
    RequestOver,
    Signs,
    Soaked,
    StandbyUp,
    goal_from_json,
)
from airflow_stream_provider.hooks.outcome import Ended, Outcome
from airflow_stream_provider.hooks.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.hooks.stillness import Stillness
from airflow_stream_provider.model.errors import StreamError
from airflow_stream_provider.model.judge import Limits
from airflow_stream_provider.model.lag import LagReport, PartitionLag, PartitionState, QueryLag
from airflow_stream_provider.model.limits import LagLimits
from airflow_stream_provider.model.names import deployment_of
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, declared, record, submitted
from tests.unit.hooks.test_plan import ASKED, BOTH, RUNNING, UPGRADED, view

ALL: list[Goal] = [
    StandbyUp("d"),
    RequestOver("r", 1.0, ("a", "b"), 30.0),
    Dead("i", 30.0),
    DriversGone("d", 5.0),
    Pause("d", 1.0),
    FirstCommits("i", ("q",), 2.0),
    Soaked("d", 3.0, Limits(LagLimits(5)).to_json(), "airflow:dag/run/"),
    Signs({"i": 7}, 30.0),
    InPhase(("running",), "2"),
]


@pytest.mark.parametrize("goal", ALL, ids=lambda goal: type(goal).__name__)
def test_a_goal_survives_the_metadata_database(goal: Goal) -> None:
    assert goal_from_json(goal.to_json()) == goal
    assert goal.says


@pytest.mark.parametrize("data", [{}, {"goal": "Nothing"}, {"goal": "StandbyUp", "unknown": 1}])
def test_what_is_no_goal_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(StreamError):
        goal_from_json(data)


class Watch:
    """A memory whose clock the test turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.memory = Memory(Stillness(lambda: self.now))


def seen(
    story: list[Any], counters: Mapping[str, int], drivers: Mapping[str, DriverFacts] | None = None, **fields: Any
) -> Snapshot:
    found = view(*story, at=fields.pop("at", 110.0))
    beats = {name: {"counter": counter} for name, counter in counters.items()}
    return Snapshot(found.stream, found.at, found.state, found.records, beats, drivers or {}, **fields)


def driver(state: DriverState, *, gone: bool = False) -> DriverFacts:
    return DriverFacts("driver-1", state, gone)


def test_standing_by_is_over_when_the_driver_is_up_or_dead() -> None:
    goal = StandbyUp(NEW_DEPLOYMENT)
    starting = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT)]
    for state in (DriverState.QUEUED, DriverState.RUNNING, DriverState.UNKNOWN):
        assert goal.check(seen(starting, {}, {NEW_DEPLOYMENT: driver(state)}), Memory()) is None
    for state in (DriverState.FAILED, DriverState.KILLED, DriverState.LOST, DriverState.FINISHED):
        ended = goal.check(seen(starting, {}, {NEW_DEPLOYMENT: driver(state)}), Memory())
        assert ended is not None
        assert ended.ended is Ended.LOST
    up = goal.check(seen(BOTH, {}), Memory())
    assert up is not None
    assert up.ended is Ended.REACHED


def test_a_driver_is_dead_only_when_both_the_cluster_and_the_heartbeat_say_so() -> None:
    goal, watch = Dead(OLD, 30.0), Watch()
    gone, there = {OLD_DEPLOYMENT: driver(DriverState.KILLED, gone=True)}, {OLD_DEPLOYMENT: driver(DriverState.KILLED)}
    assert goal.check(seen(RUNNING, {OLD: 7}, gone), watch.memory) is None
    watch.now = 29.0
    assert goal.check(seen(RUNNING, {OLD: 7}, gone), watch.memory) is None
    watch.now = 31.0
    assert goal.check(seen(RUNNING, {OLD: 7}, there), watch.memory) is None
    assert goal.check(seen(RUNNING, {OLD: 7}), watch.memory) is None
    confirmed = goal.check(seen(RUNNING, {OLD: 7}, gone), watch.memory)
    assert confirmed is not None
    assert confirmed.about(Ended.DEAD, OLD)
    assert confirmed.evidence == {"driver": "killed", "submission": "driver-1", "silent_seconds": 31.0}


def test_one_beat_starts_the_lease_anew() -> None:
    goal, watch = Dead(OLD, 30.0), Watch()
    gone = {OLD_DEPLOYMENT: driver(DriverState.KILLED, gone=True)}
    goal.check(seen(RUNNING, {OLD: 7}, gone), watch.memory)
    watch.now = 31.0
    assert goal.check(seen(RUNNING, {OLD: 8}, gone), watch.memory) is None
    watch.now = 60.0
    assert goal.check(seen(RUNNING, {OLD: 8}, gone), watch.memory) is None


def test_an_observer_that_could_not_look_forgets() -> None:
    goal, watch = Dead(OLD, 30.0), Watch()
    gone = {OLD_DEPLOYMENT: driver(DriverState.KILLED, gone=True)}
    goal.check(seen(RUNNING, {OLD: 7}, gone), watch.memory)
    watch.memory.still.forget()
    watch.now = 31.0
    assert goal.check(seen(RUNNING, {OLD: 7}, gone), watch.memory) is None


def test_a_request_is_watched_for_silence_and_expiry() -> None:
    goal, watch = RequestOver("mine", 200.0, (OLD, NEW), 30.0), Watch()
    beats = {OLD: 1, NEW: 1}
    assert goal.check(seen(ASKED, beats), watch.memory) is None
    assert goal.asks(seen(ASKED, beats), watch.memory).drivers == ()
    watch.now = 31.0
    moving = seen(ASKED, {OLD: 1, NEW: 9})
    assert goal.asks(moving, watch.memory).drivers == (OLD_DEPLOYMENT,)
    assert goal.check(moving, watch.memory) is None  # it may hold still because the folder is away
    dead = seen(ASKED, {OLD: 1, NEW: 10}, {OLD_DEPLOYMENT: driver(DriverState.FAILED)})
    silent = goal.check(dead, watch.memory)
    assert silent is not None
    assert silent.about(Ended.SILENT, OLD)
    watch.now = 61.0
    frozen = goal.check(seen(ASKED, {OLD: 1, NEW: 11}), watch.memory)
    assert frozen is not None
    assert frozen.about(Ended.SILENT, OLD)


def test_a_request_expires_only_when_everybody_is_alive() -> None:
    goal, watch = RequestOver("mine", 200.0, (OLD, NEW), 30.0), Watch()
    late = seen(ASKED, {OLD: 1, NEW: 1}, at=201.0)
    expired = goal.check(late, watch.memory)
    assert expired is not None
    assert expired.about(Ended.LOST, "mine")
    watch.now = 10.0
    assert goal.check(late, watch.memory) is None  # one is silent: that is judged first


def test_a_request_that_is_done_is_over() -> None:
    over = RequestOver("mine", 0.0, (OLD, NEW), 30.0).check(seen(UPGRADED, {}), Memory())
    assert over == Outcome(Ended.REACHED, "mine")


@pytest.mark.parametrize("ended", [OLD, NEW])
def test_a_request_is_decided_anew_once_somebody_in_it_has_ended(ended: str) -> None:
    """Its heartbeat stands still for good: neither silence nor expiry would ever be found."""
    deployment = deployment_of(ended)
    torn = record("failed", deployment=deployment, incarnation=ended, reason="it broke", boundary="interrupted")
    over = RequestOver("mine", 200.0, (OLD, NEW), 30.0).check(seen([*ASKED, torn], {}), Memory())
    assert over == Outcome(Ended.REACHED, "mine")


def behind(records: int) -> LagReport:
    partition = PartitionLag("in", 0, PartitionState.OK, committed=100, log_start=0, end=100 + records)
    return LagReport(200.0, (QueryLag("q", (partition,), seconds=float(records)),))


def test_a_soak_ends_good_bad_or_superseded() -> None:
    limits = Limits(LagLimits(10), samples=2).to_json()
    goal, memory = Soaked(NEW_DEPLOYMENT, 200.0, limits, "airflow:dag/run/"), Memory()
    assert goal.asks(None, memory).lag
    for _ in range(3):
        assert goal.check(seen(UPGRADED, {NEW: 1}, lag=behind(0)), memory) is None
    assert goal.check(seen(UPGRADED, {NEW: 1}, lag=behind(0), at=201.0), memory) is None, "it may have died just now"
    good = goal.check(seen(UPGRADED, {NEW: 2}, lag=behind(0), at=202.0), memory)
    assert good is not None
    assert good.ended is Ended.REACHED
    assert not good.reason
    goal.check(seen(UPGRADED, {NEW: 1}, lag=behind(50)), memory)
    bad = goal.check(seen(UPGRADED, {NEW: 1}, lag=behind(60)), memory)
    assert bad is not None
    assert bad.ended is Ended.LOST
    assert "60 records" in bad.reason


def test_a_soak_judges_the_age_of_the_oldest_record_too() -> None:
    limits = Limits(LagLimits(max_seconds=30.0), samples=2).to_json()
    goal, memory = Soaked(NEW_DEPLOYMENT, 200.0, limits, "airflow:dag/run/"), Memory()
    assert goal.check(seen(UPGRADED, {NEW: 1}, lag=behind(40)), memory) is None
    late = goal.check(seen(UPGRADED, {NEW: 1}, lag=behind(50)), memory)
    assert late is not None
    assert late.ended is Ended.LOST


@pytest.mark.parametrize(
    ("by", "ended"), [("airflow:other/run/x", Ended.REACHED), ("airflow:dag/run/back", Ended.LOST)]
)
def test_whoever_took_over_since_is_judged_by_whose_wish_it_was(by: str, ended: Ended) -> None:
    from tests.support.story import acquired, ready, released, requested

    after = [requested("x", OLD, by=by), ready("x", OLD), released(NEW, "x", OLD), acquired(OLD, "x", 3)]
    goal = Soaked(NEW_DEPLOYMENT, 200.0, Limits().to_json(), "airflow:dag/run/")
    found = goal.check(seen([*UPGRADED, *after], {}), Memory())
    assert found is not None
    assert found.ended is ended


def test_a_driver_lives_when_it_has_beaten_since_and_is_dead_after_two_leases() -> None:
    goal, watch = Signs({OLD: 1, NEW: 1}, 30.0), Watch()
    assert goal.check(seen(BOTH, {OLD: 1, NEW: 1}), watch.memory) is None
    assert goal.check(seen(BOTH, {OLD: 2, NEW: 1}), watch.memory) is None, "of the other one nothing is known"
    watch.now = 40.0
    assert goal.check(seen(BOTH, {OLD: 9, NEW: 1}), watch.memory) is None
    assert goal.asks(seen(BOTH, {OLD: 9, NEW: 1}), watch.memory).drivers == (NEW_DEPLOYMENT,)
    dead = {NEW_DEPLOYMENT: driver(DriverState.KILLED)}
    for found in (
        goal.check(seen(BOTH, {OLD: 9, NEW: 1}, dead), watch.memory),
        Signs({NEW: 1}, 15.0).check(seen(BOTH, {NEW: 1}), watch.memory),
    ):
        assert found is not None
        assert found.about(Ended.REACHED, Signs.SUBJECT)
        assert found.evidence[NEW] is False
    assert goal.check(seen(BOTH, {OLD: 9, NEW: 2}), watch.memory).evidence == {OLD: True, NEW: True}  # type: ignore[union-attr]


def test_a_phase_can_be_waited_for_with_its_release() -> None:
    assert InPhase(("running",), "1").check(seen(RUNNING, {}), Memory()) is not None
    assert InPhase(("running",), "2").check(seen(RUNNING, {}), Memory()) is None
    assert InPhase(("stopped", "failed")).check(seen(RUNNING, {}), Memory()) is None


@pytest.mark.parametrize("event", [None, {}, {"ended": "perhaps"}, {"ended": "reached"}, "reached", 1])
def test_an_event_that_is_not_ours_is_refused(event: Any) -> None:
    with pytest.raises(StreamError, match="instead of a stream event"):
        Outcome.from_event(event)


def test_an_outcome_survives_the_metadata_database() -> None:
    outcome = Outcome(Ended.DEAD, "x", "why", {"a": 1}, 5.0)
    assert Outcome.from_event(outcome.to_event()) == outcome

"""A copy of a stream on which the step loop runs forward: what goes well there, and what does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.asked import Asked, Task
from airflow_stream_provider.planning.conditions import FirstCommits
from airflow_stream_provider.planning.course import ME, Course
from airflow_stream_provider.planning.foreseen import Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Skip
from tests.support.snapshots import BOTH, RUNNING, STOPPED, snapshot
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, declared, hash_of, submitted, wanted

STAND_BY = partial(verbs.stand_by, reason="", since=0.0)


def after(first: Snapshot, verb: partial[verbs.Answer], hangs: str = "") -> tuple[Course, Done | Skip | GiveUp | None]:
    course = Course(first, hangs=bool(hangs))
    asked = Asked(first, Operation.UPGRADE, Wanted("9", hash_of("9"), hanging=hangs))
    return course, course.follow(Task(asked, course, verb), ME)


def kinds(course: Course) -> list[str]:
    return [record.kind for record in course.records]


def test_nothing_of_the_stream_itself_changes() -> None:
    first = snapshot(*RUNNING)
    course, end = after(first, partial(verbs.stop, reason=""))
    assert isinstance(end, Done)
    assert kinds(course) == ["wanted", "requested", "released", "retired"]
    assert (first.state.holder, course.snapshot.state.holder) == (OLD, None)
    assert course.first is first


def test_a_driver_comes_up_rehearses_and_stands_by() -> None:
    course, end = after(snapshot(*RUNNING), STAND_BY)
    assert isinstance(end, Done)
    assert kinds(course) == ["wanted", "declared", "submitted", "standby"]
    assert course.snapshot.state.holder == OLD


def test_a_sign_of_life_comes_before_a_driver_that_comes_up() -> None:
    comes_up = [wanted("new", "stand_by"), declared(NEW_DEPLOYMENT, "new"), submitted(NEW_DEPLOYMENT)]
    course, end = after(snapshot(*RUNNING, *comes_up), partial(verbs.start, version="1", reason=""))
    assert isinstance(end, Skip)
    assert kinds(course) == []


def test_a_driver_that_is_silent_by_both_clocks_stays_so_and_is_fenced() -> None:
    silent = replace(snapshot(*RUNNING), heartbeats={OLD: Heartbeat(at=10.0)})
    course, _ = after(silent, partial(verbs.stop, reason=""))
    assert kinds(course) == ["wanted", "requested", "fencing", "fenced", "retired"]
    assert course.silent == {OLD}
    recent = replace(silent, heartbeats={OLD: Heartbeat(at=60.0)})
    assert Course(recent).silent == set()


def test_a_holder_that_hangs_is_not_waited_for() -> None:
    course, end = after(snapshot(*BOTH), partial(verbs.hand_over, family="new", reason="", approved="x"), "It hangs.")
    assert isinstance(end, Done)
    assert kinds(course)[:3] == ["wanted", "fencing", "fenced"]
    assert course.snapshot.state.holder == NEW
    assert any(isinstance(event.what, FirstCommits) for event in course.events), "as long as a task would wait"


def test_a_refusal_ends_it() -> None:
    course, end = after(snapshot(*STOPPED), partial(verbs.roll_back, reason=""))
    assert isinstance(end, GiveUp)
    assert course.events == []


def test_a_holder_that_hangs_and_is_asked_all_the_same_goes_on() -> None:
    first = snapshot(*RUNNING)
    course = Course(first, hangs=True)
    end = course.follow(Task(Asked(first, Operation.STOP), course, partial(verbs.stop, reason="")), ME)
    assert isinstance(end, GiveUp), "it was asked and does not stop"
    assert deployment_of(OLD) in str(end.error)

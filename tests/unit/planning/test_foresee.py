"""What a person is told before each operation: what comes of it is here, the sentences are in `golden/`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, UnmanagedView
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import FOR_GOOD, Operation
from tests.support.foretold import (
    BEAT,
    CHANGED,
    DOWN,
    ENDED,
    HAS_ENDED,
    JOB,
    JOB_ENDS,
    NONE,
    OTHER,
    RUNS,
    SAME,
    SILENT,
    THIRD,
    THIRD_DRIVER,
    check,
    seen,
)
from tests.support.story import (
    FOLLOWING,
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    STOPPING,
    acquired,
    declared,
    declared_again,
    failed,
    fenced,
    finished,
    hash_of,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    submitted,
)
from tests.support.story import ending as job_ends


def test_a_stop() -> None:
    def stop(records: Iterable[Record] = (), **more: Any) -> Foreseen:
        return seen(Operation.STOP, records, **more)

    check(
        __file__,
        Operation.STOP,
        {
            "a driver holds, another one stands by": ("stop", stop(PREPARED)),
            "the holder is silent": ("stop", stop(RUNNING, beats=SILENT)),
            "the holder has no heartbeat": ("stop", stop(RUNNING, beats={})),
            "a hand-over is under way": ("stop", stop(REQUESTED)),
            "a stop is under way": ("stop", stop(STOPPING)),
            "a driver stopped inside a batch": ("stop", stop(INTERRUPTED)),
            "the holder was fenced": ("stop", stop(DOWN)),
            "the first driver comes up": ("stop", stop(STARTED)),
            "it is stopped, and drivers are left": ("stop", stop(STOPPED)),
            "it is stopped, and no driver is left": ("done", stop(ENDED)),
            "it never ran": ("refused", stop()),
            "a driver is to follow a job": ("stop", stop(FOLLOWING)),
            "a job is being ended": ("stop", stop(JOB_ENDS)),
            "a job is named": ("refused", stop(RUNNING, job=JOB)),
        },
    )


def test_a_stop_for_good() -> None:
    places = [{"name": "a", "checkpoint": "/c/a/"}, {"name": "b", "checkpoint": "/c/b"}, {"name": "c"}]
    known = record("standby", deployment=OLD_DEPLOYMENT, incarnation=OLD, queries=places)
    runs = [known if one.kind == "standby" else one for one in RUNNING]
    for_good = record("stopped", request="r", reason=f"{FOR_GOOD}moved", by="anna")
    check(
        __file__,
        Operation.RETIRE,
        {
            "a driver holds": ("stop", seen(Operation.RETIRE, runs)),
            "it is stopped": ("stop", seen(Operation.RETIRE, ENDED)),
            "it is stopped for good": ("done", seen(Operation.RETIRE, [*ENDED, for_good])),
            "it never ran": ("refused", seen(Operation.RETIRE)),
        },
    )


def test_a_start() -> None:
    def start(records: Iterable[Record] = (), wanted: Wanted = SAME, **more: Any) -> Foreseen:
        return seen(Operation.START, records, wanted, **more)

    new = replace(CHANGED, approval=True)
    down = [*RUNNING, released(OLD, None, None)]
    check(
        __file__,
        Operation.START,
        {
            "it never ran": ("start", start()),
            "it is stopped": ("start", start(ENDED)),
            "it is stopped, and another release is asked for": ("start", start(ENDED, OTHER)),
            "its driver released, and no other one took over": ("start", start(down)),
            "its driver was fenced": ("start", start(DOWN)),
            "it was stopped after its driver was fenced": (
                "start",
                start([*DOWN, record("stopped", request="r", reason="x")]),
            ),
            "its queries finished": ("start", start([*RUNNING, finished(OLD)])),
            "its queries failed": ("start", start([*RUNNING, failed(OLD)])),
            "its queries failed at a boundary": ("start", start([*RUNNING, failed(OLD, ends={"a": {"batch": 7}})])),
            "its queries failed inside a batch": ("start", start([*RUNNING, failed(OLD, boundary="interrupted")])),
            "an upgrade needs approval, and the release has held": (
                "start",
                start(ENDED, replace(SAME, approval=True)),
            ),
            "an upgrade needs approval, and the release is new": ("refused", start(ENDED, new)),
            "an upgrade needs approval, and it never ran": ("refused", start([], new)),
            "there is no release": ("refused", start(ENDED, NONE)),
            "it runs": ("done", start(RUNNING)),
            "it runs with other files": ("done", start(RUNNING, CHANGED)),
            "another release holds": ("refused", start(RUNNING, OTHER)),
            "the holder is silent": ("refused", start(RUNNING, beats=SILENT)),
            "a driver is to follow a job": ("refused", start(FOLLOWING)),
            "a job is being ended": ("refused", start(JOB_ENDS)),
            "what was to follow a job is called off": ("start", start([*FOLLOWING, retired(OLD_DEPLOYMENT)])),
        },
    )


def test_a_restart() -> None:
    def restart(records: Iterable[Record], wanted: Wanted = SAME) -> Foreseen:
        return seen(Operation.RESTART, records, wanted)

    new = replace(CHANGED, approval=True)
    check(
        __file__,
        Operation.RESTART,
        {
            "a driver holds": ("stop start", restart(RUNNING)),
            "a driver holds with other files": ("stop start", restart(RUNNING, CHANGED)),
            "another release holds": ("refused", restart(RUNNING, OTHER)),
            "it is stopped": ("start", restart(ENDED)),
            "an upgrade needs approval, and the release has held": (
                "start",
                restart(ENDED, replace(SAME, approval=True)),
            ),
            "an upgrade needs approval, and the release is new": ("refused", restart(RUNNING, new)),
            "it is stopped, and the release is new": ("refused", restart(ENDED, new)),
            "there is no release": ("refused", restart(ENDED, NONE)),
            "a driver is to follow a job": ("refused", restart(FOLLOWING)),
        },
    )


@pytest.mark.parametrize("operation", sorted({*Operation} - {Operation.FENCE, Operation.ADOPT}))
def test_only_a_fence_and_an_adoption_go_by_a_persons_word(operation: Operation) -> None:
    assert seen(operation, HANDED_OVER, confirmed_by="Ada").refused


# -- the driver that holds ---------------------------------------------------------------------------------------------


def once_more(deployment: str, of: str, **more: Any) -> list[Record]:
    """Records by which a deployment of the same release comes up."""
    return [declared_again(deployment, of, **more), submitted(deployment)]


def holds(driver: str, epoch: int) -> list[Record]:
    return [standby(driver), requested(driver, driver), ready(driver, driver), acquired(driver, driver, epoch)]


def hands_over(to: str, epoch: int, by: str = NEW) -> list[Record]:
    return [requested(to, to), ready(to, to), released(by, to, to), acquired(to, to, epoch)]


BACK = [*HANDED_OVER, *hands_over(OLD, 3)]
COLD = [*HANDED_OVER, retired(OLD_DEPLOYMENT), *once_more(THIRD, OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT)]
BACK_COLD = [*COLD, standby(THIRD_DRIVER), *hands_over(THIRD_DRIVER, 3)]


def test_a_roll_back() -> None:
    def back(records: Iterable[Record] = (), **more: Any) -> Foreseen:
        return seen(Operation.ROLL_BACK, records, **{"beats": {}, **more})

    warm, cold = f"roll-back {NEW_DEPLOYMENT}", f"roll-back {NEW_DEPLOYMENT} {hash_of(OLD_DEPLOYMENT)}"
    asked = [declared(THIRD), standby(THIRD_DRIVER), requested("c", THIRD_DRIVER)]
    revived = [*HANDED_OVER, failed(NEW), *once_more(THIRD, NEW_DEPLOYMENT), *holds(THIRD_DRIVER, 3)]
    upgraded = [*BACK, declared(THIRD), standby(THIRD_DRIVER), *hands_over(THIRD_DRIVER, 4, OLD)]
    fourth = "orders-3-dddd"
    by_watch = [*BACK_COLD, failed(THIRD_DRIVER), *once_more(fourth, THIRD), *holds(f"{fourth}.0000000d", 4)]
    check(
        __file__,
        Operation.ROLL_BACK,
        {
            "what held before is warm": (warm, back(HANDED_OVER)),
            "what held before is gone": (cold, back([*HANDED_OVER, retired(OLD_DEPLOYMENT)])),
            "the holder was fenced": (warm, back([*HANDED_OVER, fenced(NEW)])),
            "the holder is silent": (warm, back(HANDED_OVER, beats={NEW: Heartbeat(at=1.0)})),
            "it is rolled back": ("done", back(BACK)),
            "it is rolled back to a new driver": ("done", back(BACK_COLD)),
            "it is, and the watch has started that again": ("done", back(by_watch)),
            "the watch has started the new release again": (warm, back(revived)),
            "another release came after a roll-back": (f"roll-back {THIRD}", back(upgraded)),
            "it never ran": ("refused", back()),
            "it is stopped": ("refused", back(STOPPED)),
            "no release held before": ("refused", back(RUNNING)),
            "a hand-over to another one is under way": ("refused", back([*HANDED_OVER, *asked])),
            "a stop is under way": ("refused", back([*HANDED_OVER, requested("s", None)])),
            "a roll-back is under way": (warm, back([*HANDED_OVER, requested("back", OLD)])),
            "a roll-back to a new driver is under way": (cold, back([*COLD, *asked[1:]])),
            # A run that is cleared must not hit another driver than the one that was meant.
            "the driver held when this was asked for": (warm, back(HANDED_OVER, since=100.0)),
            "the driver has come to hold since": ("done", back(HANDED_OVER, since=99.0)),
        },
    )


def test_calling_a_release_off() -> None:
    def abort(records: Iterable[Record] = (), **more: Any) -> Foreseen:
        return seen(Operation.ABORT, records, beats={}, **more)

    new = f"abort {NEW_DEPLOYMENT}"
    down = [*RUNNING, failed(OLD), *once_more(THIRD, OLD_DEPLOYMENT)]
    check(
        __file__,
        Operation.ABORT,
        {
            "a new one stands by": (new, abort(PREPARED)),
            "a new one comes up": (f"abort {THIRD}", abort([*RUNNING, declared(THIRD)])),
            "its hand-over is under way": (new, abort(REQUESTED)),
            "it was there when this was asked for": (new, abort(PREPARED, since=100.0)),
            "it was declared since this was asked for": ("done", abort(PREPARED, since=99.0)),
            "the first one stands by": (f"abort {OLD_DEPLOYMENT}", abort(STARTED)),
            "the watch brings back what held": ("refused", abort(down)),
            "a new one comes up beside that": (new, abort([*down, declared(NEW_DEPLOYMENT)])),
            "it never ran": ("done", abort()),
            "no other driver is there": ("done", abort(RUNNING)),
            "only what held before is warm": ("done", abort(HANDED_OVER)),
            "the new one was retired": ("done", abort([*PREPARED, retired(NEW_DEPLOYMENT)])),
        },
    )


def test_a_fence() -> None:
    def fence(records: Iterable[Record] = RUNNING, at: float | None = None, **more: Any) -> Foreseen:
        return seen(Operation.FENCE, records, beats={} if at is None else {OLD: Heartbeat(at=at)}, **more)

    old = f"fence {OLD_DEPLOYMENT}"
    cut = [*RUNNING, requested("s", None), released(OLD, "s", None, "interrupted")]
    two = {OLD: replace(BEAT, queries=(*BEAT.queries, QueryProgress("b")))}
    check(
        __file__,
        Operation.FENCE,
        {
            "a driver holds": (old, seen(Operation.FENCE, RUNNING, beats=two)),
            "a driver stopped inside a batch": (old, fence(INTERRUPTED)),
            "it was stopped, inside a batch": (old, fence(cut)),
            "the holder was fenced": ("done", fence(DOWN)),
            "by a person's word": (old, fence(confirmed_by="Ada")),
            "by a person's word, and the holder is silent": (old, fence(at=70.0, confirmed_by="Ada")),
            "by a person's word, and the holder has beaten": ("refused", fence(at=109.0, confirmed_by="Ada")),
            "by a person's word, and its clock is seconds ahead": ("refused", fence(at=115.0, confirmed_by="Ada")),
            # Else no person could say for an hour that the machine has burnt down.
            "by a person's word, and its clock is an hour ahead": (old, fence(at=3710.0, confirmed_by="Ada")),
            "the driver held when this was asked for": (
                f"fence {NEW_DEPLOYMENT}",
                fence(HANDED_OVER, since=100.0),
            ),
            "the driver has come to hold since": ("done", fence(HANDED_OVER, since=99.0)),
        },
    )


# -- a job without a stream --------------------------------------------------------------------------------------------


def test_an_adoption() -> None:
    def adopt(
        records: Iterable[Record] = (),
        view: UnmanagedView | None = RUNS,
        job: str = JOB,
        at: float = 109.0,
        **more: Any,
    ) -> Foreseen:
        beats = {OLD: Heartbeat(at=at, message="batch 7 is under way.")}
        return seen(Operation.ADOPT, records, beats=beats, job_view=view, job=job, **more)

    one, goes_on = "adopt", f"adopt {OLD_DEPLOYMENT}"
    another = [*FOLLOWING, job_ends(OLD_DEPLOYMENT, "driver-1")]
    unnamed = [*FOLLOWING, job_ends(OLD_DEPLOYMENT, ""), retired(OLD_DEPLOYMENT)]
    check(
        __file__,
        Operation.ADOPT,
        {
            "a job runs": (one, adopt()),
            "no job is named": (one, adopt(view=None, job="")),
            "by a person's word": (one, adopt(view=None, job="", confirmed_by="Ada")),
            "a driver follows it": (goes_on, adopt(FOLLOWING)),
            "a driver follows it, and it has ended": (goes_on, adopt(FOLLOWING, HAS_ENDED)),
            "a driver that is silent follows it": ("refused", adopt(FOLLOWING, at=10.0)),
            "the stream was left": (one, adopt(ENDED)),
            "the stream runs": ("refused", adopt(RUNNING)),
            "the stream is down": ("refused", adopt(DOWN)),
            "its first driver stands by": ("refused", adopt(STARTED)),
            "its first driver is to hold": ("refused", adopt([*STARTED, requested("start", OLD)])),
            "the cluster cannot end it": ("refused", adopt(view=None)),
            "the cluster does not know it": ("refused", adopt(view=UnmanagedView(JOB, DriverState.LOST))),
            "it is a stream's": ("refused", adopt(view=replace(RUNS, managed=True))),
            "it may be a stream's": ("refused", adopt(view=replace(RUNS, managed=None))),
            "it has ended": ("refused", adopt(view=replace(RUNS, state=DriverState.FINISHED))),
            "it is named, and a person's word is given": ("refused", adopt(confirmed_by="Ada")),
            "there is no release": ("refused", adopt(wanted=NONE)),
            "an upgrade needs approval": ("refused", adopt(wanted=replace(SAME, approval=True))),
            "another job is being ended": ("refused", adopt(another)),
            "another job is being ended, and this one has": ("refused", adopt(another, HAS_ENDED)),
            "another job has ended, by a person's word": (goes_on, adopt(another, None, "", confirmed_by="Ada")),
            "it was ended by an earlier adoption": (one, adopt(JOB_ENDS, HAS_ENDED)),
            "it has ended, and an earlier adoption named none": ("refused", adopt(unnamed, HAS_ENDED)),
        },
    )

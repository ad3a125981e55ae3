"""What a person is told before an operation: what comes of it is here, the sentences are in `golden/`.

Those that let another release or driver hold are in `test_forecast_of_releases.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, UnmanagedView
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation
from tests.support.forecasts import (
    BEAT,
    CHANGED,
    DOWN,
    HAS_ENDED,
    JOB,
    NONE,
    OTHER,
    RUNS,
    SAME,
    SILENT,
    STARTED,
    STOPPING,
    check,
    seen,
)
from tests.support.snapshots import ASKED, BOTH, RUNNING, STOPPED, UPGRADED
from tests.support.story import (
    FOLLOWING,
    JOB_ENDING,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    failed,
    finished,
    ready,
    record,
    released,
    requested,
    retired,
    wanted,
)

ENDED = [*STOPPED, retired(OLD_DEPLOYMENT)]
CUT = [*ASKED, ready("mine", NEW), released(OLD, "mine", NEW, "interrupted")]


def test_a_stop() -> None:
    stop = partial(seen, Operation.STOP)
    check(
        __file__,
        Operation.STOP,
        {
            "a driver holds, another one stands by": ("stop", stop(BOTH)),
            "the holder is silent": ("stop", stop(RUNNING, beats=SILENT)),
            "the holder has no heartbeat": ("stop", stop(RUNNING, beats={})),
            "a hand-over is under way": ("stop", stop(ASKED)),
            "a stop is under way": ("stop", stop(STOPPING)),
            "a driver stopped inside a batch": ("stop", stop(CUT)),
            "the holder was fenced": ("stop", stop(DOWN)),
            "the first driver comes up": ("stop", stop(STARTED)),
            "it is stopped, and drivers are left": ("stop", stop(STOPPED)),
            "it is stopped, and no driver is left": ("done", stop(ENDED)),
            "it never ran": ("refused", stop()),
            "a driver is to follow a job": ("stop", stop(FOLLOWING)),
            "a job is being ended": ("stop", stop(JOB_ENDING)),
            "a job is named": ("refused", stop(RUNNING, job=JOB)),
        },
    )


def test_a_stop_for_good() -> None:
    places = [{"name": "a", "checkpoint": "/c/a/"}, {"name": "b", "checkpoint": "/c/b"}, {"name": "c"}]
    known = record("standby", deployment=OLD_DEPLOYMENT, incarnation=OLD, queries=places)
    runs = [known if one.kind == "standby" else one for one in RUNNING]
    check(
        __file__,
        Operation.RETIRE,
        {
            "a driver holds": ("retire", seen(Operation.RETIRE, runs)),
            "it is stopped": ("retire", seen(Operation.RETIRE, ENDED)),
            "it is stopped for good": ("done", seen(Operation.RETIRE, [*ENDED, wanted("left", "leave")])),
            "it never ran": ("refused", seen(Operation.RETIRE)),
        },
    )


def test_a_start() -> None:
    start = partial(seen, Operation.START)
    new = replace(CHANGED, approval=True)
    check(
        __file__,
        Operation.START,
        {
            "it never ran": ("start", start()),
            "it is stopped": ("start", start(ENDED)),
            "it is stopped, and another release is asked for": ("start", start(ENDED, OTHER)),
            "its driver released, and no other one took over": ("start", start([*RUNNING, released(OLD, None, None)])),
            "its driver was fenced": ("start", start(DOWN)),
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
            "the holder is silent": ("start", start(RUNNING, beats=SILENT)),
            "another release is to hold, and does not yet": ("start", start(ASKED)),
            "a driver is to follow a job": ("refused", start(FOLLOWING)),
            "a job is being ended": ("refused", start(JOB_ENDING)),
            "what was to follow a job is called off": (
                "start",
                start([*FOLLOWING, wanted("no", "stop"), retired(OLD_DEPLOYMENT)]),
            ),
        },
    )


def test_a_restart() -> None:
    restart = partial(seen, Operation.RESTART)
    new = replace(CHANGED, approval=True)
    check(
        __file__,
        Operation.RESTART,
        {
            "a driver holds": ("restart", restart(RUNNING)),
            "a driver holds, another one stands by": ("restart", restart(BOTH)),
            "a driver holds with other files": ("restart", restart(RUNNING, CHANGED)),
            "the holder is silent": ("restart", restart(RUNNING, beats=SILENT)),
            "another release holds": ("refused", restart(RUNNING, OTHER)),
            "it is stopped": ("restart", restart(ENDED)),
            "an upgrade needs approval, and the release has held": (
                "restart",
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
    assert seen(operation, UPGRADED, confirmed_by="Ada").refused


def test_a_fence() -> None:
    def fence(records: Iterable[Record] = RUNNING, at: float | None = None, **more: Any) -> Foreseen:
        return seen(Operation.FENCE, records, beats={} if at is None else {OLD: Heartbeat(at=at)}, **more)

    old = f"fence {OLD_DEPLOYMENT}"
    cut = [*RUNNING, wanted("rest", "stop"), requested("s", None, wish="rest"), released(OLD, "s", None, "interrupted")]
    two = {OLD: replace(BEAT, queries=(*BEAT.queries, QueryProgress("b")))}
    check(
        __file__,
        Operation.FENCE,
        {
            "a driver holds": (old, seen(Operation.FENCE, RUNNING, beats=two)),
            "a driver stopped inside a batch": (old, fence(CUT)),
            "it was stopped, inside a batch": (old, fence(cut)),
            "it did not stop in time": (old, fence([*RUNNING, wanted("rest", "stop")])),
            "the holder was fenced": ("done", fence(DOWN)),
            "by a person's word": (old, fence(confirmed_by="Ada")),
            "by a person's word, and the holder is silent": (old, fence(at=70.0, confirmed_by="Ada")),
            "by a person's word, and the holder has beaten": ("refused", fence(at=109.0, confirmed_by="Ada")),
            "by a person's word, and its clock is seconds ahead": ("refused", fence(at=115.0, confirmed_by="Ada")),
            # Else no person could say for an hour that the machine has burnt down.
            "by a person's word, and its clock is an hour ahead": (old, fence(at=3710.0, confirmed_by="Ada")),
            "the driver held when this was asked for": (f"fence {NEW_DEPLOYMENT}", fence(UPGRADED, since=100.0)),
            "the driver has come to hold since": ("done", fence(UPGRADED, since=99.0)),
        },
    )


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
    another = [*FOLLOWING, record("ending", deployment=OLD_DEPLOYMENT, job="driver-9", expires=160.0, reason="x")]
    check(
        __file__,
        Operation.ADOPT,
        {
            "a job runs": (one, adopt()),
            "no job is named": (one, adopt(view=None, job="")),
            "by a person's word": (one, adopt(view=None, job="", confirmed_by="Ada")),
            "a driver follows it": (goes_on, adopt(FOLLOWING)),
            "a driver follows it, and it has ended": (goes_on, adopt(JOB_ENDING, HAS_ENDED)),
            "a driver that is silent follows it": (goes_on, adopt(FOLLOWING, at=10.0)),
            "the stream was left": (one, adopt(ENDED)),
            "the stream runs": ("refused", adopt(RUNNING)),
            "the stream is down": ("refused", adopt(DOWN)),
            "its first driver stands by": ("refused", adopt(STARTED)),
            "the cluster cannot end it": ("refused", adopt(view=None)),
            "the cluster does not know it": ("refused", adopt(view=UnmanagedView(JOB, DriverState.LOST))),
            "it is a stream's": ("refused", adopt(view=replace(RUNS, managed=True))),
            "it may be a stream's": ("refused", adopt(view=replace(RUNS, managed=None))),
            "it has ended": ("refused", adopt(view=HAS_ENDED)),
            "it is named, and a person's word is given": ("refused", adopt(confirmed_by="Ada")),
            "there is no release": ("refused", adopt(wanted=NONE)),
            "an upgrade needs approval": ("refused", adopt(wanted=replace(SAME, approval=True))),
            "another job is being ended": ("refused", adopt(another)),
            "another job has ended, by a person's word": (goes_on, adopt(another, None, "", confirmed_by="Ada")),
        },
    )

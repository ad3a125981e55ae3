"""What a person is told before each operation: what comes of it is here, the sentences are in `golden/`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, UnmanagedView
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.rewind import FoundRewind
from tests.support.forecasts import (
    BEAT,
    CHANGED,
    DOWN,
    HANGS,
    HAS_ENDED,
    JOB,
    NONE,
    OTHER,
    RUNS,
    SAME,
    SILENT,
    check,
    seen,
)
from tests.support.snapshots import ASKED, BOTH, RELEASED, RUNNING, STOPPED, UPGRADED, up
from tests.support.story import (
    FOLLOWING,
    JOB_ENDING,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    declared,
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
    wanted,
)

ENDED = [*STOPPED, retired(OLD_DEPLOYMENT)]
STOPPING = [*BOTH, wanted("rest", "stop"), requested("s", None, wish="rest")]
STARTED = [wanted("old"), *up(OLD, "old")]
CUT = [*ASKED, ready("mine", NEW), released(OLD, "mine", NEW, "interrupted")]


def test_a_stop() -> None:
    def stop(records: Iterable[Record] = (), **more: Any) -> Foreseen:
        return seen(Operation.STOP, records, **more)

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
    def start(records: Iterable[Record] = (), wanted: Wanted = SAME, **more: Any) -> Foreseen:
        return seen(Operation.START, records, wanted, **more)

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
    def restart(records: Iterable[Record], wanted: Wanted = SAME, **more: Any) -> Foreseen:
        return seen(Operation.RESTART, records, wanted, **more)

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


# -- the driver that holds ---------------------------------------------------------------------------------------------

THIRD, THIRD_DRIVER = "orders-3-cccc", "orders-3-cccc.0000000c"


def once_more(deployment: str, of: str, family: str) -> list[Record]:
    """Records by which a deployment of the same release comes up."""
    release = {"version": "1", "hash": hash_of(of)}
    return [declared(deployment, family, again=of, release=release), submitted(deployment)]


def hands_over(to: str, epoch: int, by: str, wish: str) -> list[Record]:
    return [requested(to, to, wish=wish), ready(to, to), released(by, to, to), acquired(to, to, epoch)]


BACK = [*UPGRADED, wanted("back", family="old", back=True), *hands_over(OLD, 3, NEW, "back")]


def test_a_roll_back() -> None:
    def back(records: Iterable[Record] = (), **more: Any) -> Foreseen:
        return seen(Operation.ROLL_BACK, records, **more)

    warm, cold = f"roll-back {NEW_DEPLOYMENT}", f"roll-back {NEW_DEPLOYMENT} {hash_of(OLD_DEPLOYMENT)}"
    revived = [*UPGRADED, failed(NEW), *once_more(THIRD, NEW_DEPLOYMENT, "new"), standby(THIRD_DRIVER)]
    revived += [requested("c", THIRD_DRIVER, wish="take"), ready("c", THIRD_DRIVER), acquired(THIRD_DRIVER, "c", 3)]
    third = [wanted("third", "stand_by"), *up(THIRD_DRIVER, "third"), wanted("up", family="third")]
    one_way = record(
        "standby",
        deployment=NEW_DEPLOYMENT,
        incarnation=NEW,
        queries=[{"name": "a"}],
        rehearsal={"one_way": ["The query a writes commits/ in format v2 instead of v1."]},
    )
    check(
        __file__,
        Operation.ROLL_BACK,
        {
            "what held before is warm": (warm, back(UPGRADED)),
            "what held before is gone": (cold, back([*UPGRADED, retired(OLD_DEPLOYMENT)])),
            "what held before is silent": (cold, back(UPGRADED, beats={**SILENT, NEW: BEAT})),
            "the holder was fenced": (warm, back([*UPGRADED, fenced(NEW)])),
            "the holder is silent": (warm, back(UPGRADED, beats={NEW: Heartbeat(at=1.0)})),
            "it is rolled back": ("done", back(BACK)),
            "the watch has started the new release again": (f"roll-back {THIRD}", back(revived)),
            "another release came after a roll-back": (
                f"roll-back {THIRD}",
                back([*BACK, *third, *hands_over(THIRD_DRIVER, 4, OLD, "up")]),
            ),
            "it never ran": ("refused", back()),
            "it is stopped": ("refused", back(STOPPED)),
            "no release held before": ("refused", back(RUNNING)),
            "a hand-over to another one is under way": (
                warm,
                back([*UPGRADED, *third, requested("c", THIRD_DRIVER, wish="up")]),
            ),
            "a stop is under way": (
                warm,
                back([*UPGRADED, wanted("rest", "stop"), requested("s", None, wish="rest")]),
            ),
            "a roll-back is under way": (warm, back([*BACK[:-3]])),
            "there is no way back": (
                "refused",
                back([one_way if r.kind == "standby" and r["incarnation"] == NEW else r for r in UPGRADED]),
            ),
            # A run that is cleared must not hit another driver than the one that was meant.
            "the driver held when this was asked for": (warm, back(UPGRADED, since=100.0)),
            "the driver has come to hold since": ("done", back(UPGRADED, since=99.0)),
        },
    )


def test_calling_a_release_off() -> None:
    def abort(records: Iterable[Record] = (), **more: Any) -> Foreseen:
        return seen(Operation.ABORT, records, **more)

    new = f"abort {NEW_DEPLOYMENT}"
    comes_up = [wanted("new", "stand_by"), declared(NEW_DEPLOYMENT, "new"), submitted(NEW_DEPLOYMENT)]
    down = [*RUNNING, failed(OLD), *once_more(THIRD, OLD_DEPLOYMENT, "old")]
    check(
        __file__,
        Operation.ABORT,
        {
            "a new one stands by": (new, abort(BOTH)),
            "a new one comes up": (new, abort([*RUNNING, *comes_up])),
            "its hand-over is under way": (new, abort(ASKED)),
            "the holder has released for it": (new, abort(RELEASED)),
            "it was there when this was asked for": (new, abort(BOTH, since=100.0)),
            "it was asked for since": ("done", abort(BOTH, since=99.0)),
            "the first one stands by": (f"abort {OLD_DEPLOYMENT}", abort(STARTED)),
            "the watch brings back what held": ("refused", abort(down)),
            "a new one comes up beside that": (new, abort([*down, *comes_up])),
            "it never ran": ("done", abort()),
            "no other driver is there": ("done", abort(RUNNING)),
            "only what held before is warm": ("done", abort(UPGRADED)),
        },
    )


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


# -- what brings a release up ------------------------------------------------------------------------------------------


def test_an_upgrade() -> None:
    def upgrade(records: Iterable[Record] = (), wanted: Wanted = OTHER, **more: Any) -> Foreseen:
        return seen(Operation.UPGRADE, records, wanted, **more)

    same = replace(SAME, same=True)
    both = replace(OTHER, restart=True, approval=True)
    check(
        __file__,
        Operation.UPGRADE,
        {
            "a driver holds": ("upgrade", upgrade(RUNNING)),
            "it never ran": ("upgrade", upgrade()),
            "it runs as it is asked for": ("done", upgrade(RUNNING, same)),
            "it runs as it is asked for, and its driver is silent": ("upgrade", upgrade(RUNNING, same, beats=SILENT)),
            "it runs as it is asked for, and hangs": ("upgrade", upgrade(RUNNING, replace(same, hanging=HANGS))),
            "it is stopped, and held as it is asked for": ("upgrade", upgrade(STOPPED, same)),
            "it was stopped since this was asked for": ("refused", upgrade(STOPPED, since=99.0)),
            "the same release runs with other settings": ("upgrade", upgrade(RUNNING, SAME)),
            "the holder is silent": ("upgrade", upgrade(RUNNING, beats=SILENT)),
            "the holder hangs": ("upgrade", upgrade(RUNNING, replace(OTHER, hanging=HANGS))),
            "the strategy is restart": ("upgrade", upgrade(RUNNING, replace(OTHER, restart=True))),
            "restart, an approval, and a driver to end first": ("upgrade", upgrade(BOTH, both)),
            "an approval is needed": ("upgrade", upgrade(RUNNING, replace(OTHER, approval=True))),
            "a hand-over is under way": ("upgrade", upgrade(ASKED)),
            "a stop is under way": ("upgrade", upgrade(STOPPING)),
            "there is no release": ("refused", upgrade(RUNNING, NONE)),
            "a driver is to follow a job": ("refused", upgrade(FOLLOWING)),
            "a job is being ended": ("refused", upgrade(JOB_ENDING)),
        },
    )


def test_a_redeployment() -> None:
    def redeploy(records: Iterable[Record], wanted: Wanted = OTHER, **more: Any) -> Foreseen:
        return seen(Operation.REDEPLOY, records, wanted, **more)

    new, old = (f"upgrade {each.hash}" for each in (OTHER, SAME))
    check(
        __file__,
        Operation.REDEPLOY,
        {
            "a driver holds": (new, redeploy(RUNNING)),
            "it runs": ("done", redeploy(RUNNING, SAME)),
            "it runs, and its driver is silent": (old, redeploy(RUNNING, SAME, beats=SILENT)),
            "it runs, and hangs": (old, redeploy(RUNNING, replace(SAME, hanging=HANGS))),
            "there is no release": ("refused", redeploy(RUNNING, NONE)),
            "a driver is to follow a job": ("refused", redeploy(FOLLOWING)),
        },
    )


def test_a_promotion() -> None:
    def promote(records: Iterable[Record], wanted: Wanted = OTHER, **more: Any) -> Foreseen:
        return seen(Operation.PROMOTE, records, wanted, **more)

    new = f"promote {NEW_DEPLOYMENT}"
    comes_up = [wanted("new", "stand_by"), declared(NEW_DEPLOYMENT, "new"), submitted(NEW_DEPLOYMENT)]
    approval = [wanted("new", "stand_by", approval=True), *up(NEW, "new")]
    check(
        __file__,
        Operation.PROMOTE,
        {
            "a driver holds, another one stands by": (new, promote(BOTH)),
            "its hand-over is under way": (new, promote(ASKED)),
            "the holder hangs": (new, promote(BOTH, Wanted(hanging=HANGS))),
            "the holder is silent": (new, promote(BOTH, beats=SILENT)),
            "the holder has failed": (new, promote([*BOTH, failed(OLD)])),
            "it is silent": (
                f"{new} {hash_of(NEW_DEPLOYMENT)}",
                promote(BOTH, beats={OLD: BEAT, NEW: Heartbeat(at=10.0)}),
            ),
            "no other driver is there": ("done", promote(RUNNING)),
            "only what held before stands by": ("done", promote(UPGRADED)),
            "the new one comes up": ("refused", promote([*RUNNING, *comes_up])),
            "it waits for an approval": ("refused", promote([*RUNNING, *approval])),
            "a stop is under way": ("promote", promote(STOPPING)),
            "it was asked for since": ("done", promote(BOTH, since=99.0)),
            "it is to follow a job": ("done", promote(FOLLOWING)),
        },
    )


# -- a rewind ----------------------------------------------------------------------------------------------------------

TO = WantedRewind(1764000000.0, {"a": {"orders": {0: 40}}})
FOUND = FoundRewind(TO, ("a: 60 records of orders.",))
REWIND = replace(SAME, rewind=FOUND)


def test_a_rewind() -> None:
    rewound = [
        replace(each, fields={**each.fields, "rewind": TO.to_json()}) if each.kind == "declared" else each
        for each in RUNNING
    ]

    def to(rewind: WantedRewind) -> Wanted:
        return replace(REWIND, rewind=FoundRewind(rewind))

    def rewind(records: Iterable[Record] = RUNNING, wanted: Wanted = REWIND, said: str = "", **more: Any) -> Foreseen:
        beat = {OLD: replace(BEAT, rewind=said, rewind_undone=said.startswith("Nobody"))}
        return seen(Operation.REWIND, records, wanted, **{"beats": beat, **more})

    again = f"upgrade {hash_of(OLD_DEPLOYMENT)}"
    later, part = to(replace(TO, to=TO.to + 1)), to(WantedRewind(TO.to, {"a": {"orders": {0: 41}}}))
    near = replace(FOUND, near=("Kafka deletes it in 5 min.",))
    went = "a goes back after batch 7."
    check(
        __file__,
        Operation.REWIND,
        {
            "a driver holds": (again, rewind()),
            "Kafka soon deletes a record": (again, rewind(wanted=replace(REWIND, rewind=near))),
            "a query keeps state": (
                "refused",
                rewind(wanted=replace(REWIND, rewind=FoundRewind(problem="It keeps state."))),
            ),
            "its YAML is wrong": ("refused", rewind(wanted=replace(REWIND, problem="Line 3."))),
            "no time is given": ("refused", rewind(wanted=SAME)),
            "the holder is silent": ("refused", rewind(beats=SILENT)),
            "the holder hangs": ("refused", rewind(wanted=replace(REWIND, hanging=HANGS))),
            "it is stopped": ("refused", rewind(STOPPED)),
            "Kafka has nothing since then": ("done", rewind(wanted=replace(REWIND, rewind=FoundRewind()))),
            "the holder has gone back to there": ("done", rewind(rewound, said=went)),
            "it has, and some partitions have nothing new": ("done", rewind(rewound, part)),
            "it left that undone": (again, rewind(rewound, said="Nobody does it any more.")),
            "it has gone back to another time": (again, rewind(rewound, later, went)),
            # Lost now, the second would take the place of the first, and no driver would do that.
            "it is still to go back to another time": ("refused", rewind(rewound, later)),
        },
    )
    shown = rewind()
    assert shown.rewind == {**TO.to_json(), "held": OLD_DEPLOYMENT}
    elsewhere = rewind(wanted=to(WantedRewind(TO.to, {"a": {"orders": {0: 39}}})))
    assert not shown.same_as(elsewhere), "a yes is to what was shown"
    assert shown.refuse("No.").rewind is None

"""What a person is told before another release or driver is to hold; the sentences are in `golden/`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.rewind import FoundRewind
from tests.support.forecasts import (
    BEAT,
    HANGS,
    NONE,
    OTHER,
    SAME,
    SILENT,
    STARTED,
    STOPPING,
    check,
    seen,
)
from tests.support.snapshots import ASKED, BOTH, RELEASED, RUNNING, STOPPED, UPGRADED, WISHED, seen_by, up
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
    hash_of,
    ready,
    released,
    requested,
    retired,
    standby,
    submitted,
    wanted,
)

THIRD, THIRD_DRIVER = "orders-3-cccc", "orders-3-cccc.0000000c"


def once_more(deployment: str, of: str, family: str) -> list[Record]:
    """Records by which a deployment of the same release comes up."""
    release = {"version": "1", "hash": hash_of(of)}
    return [declared(deployment, family, again=of, release=release), submitted(deployment)]


def hands_over(to: str, epoch: int, by: str, wish: str) -> list[Record]:
    return [requested(to, to, wish=wish), ready(to, to), released(by, to, to), acquired(to, to, epoch)]


COMES_UP = [wanted("new", "stand_by"), declared(NEW_DEPLOYMENT, "new"), submitted(NEW_DEPLOYMENT)]
BACK = [*UPGRADED, wanted("back", family="old", back=True), *hands_over(OLD, 3, NEW, "back")]


def took_over_at(at: float) -> list[Record]:
    """Records by which a release takes over that is approved while a roll-back is asked for."""
    take = [wanted("take", family="new", approved="it was judged", at=150.0), *ASKED[len(WISHED) :]]
    return [*BOTH, *take, ready("mine", NEW), released(OLD, "mine", NEW), replace(acquired(NEW, "mine", 2), at=at)]


def test_a_roll_back() -> None:
    back = partial(seen, Operation.ROLL_BACK)
    warm, cold = f"roll-back {OLD_DEPLOYMENT}", f"roll-back {OLD_DEPLOYMENT} {hash_of(OLD_DEPLOYMENT)}"
    revived = [*UPGRADED, failed(NEW), *once_more(THIRD, NEW_DEPLOYMENT, "new"), standby(THIRD_DRIVER)]
    revived += [requested("c", THIRD_DRIVER, wish="take"), ready("c", THIRD_DRIVER), acquired(THIRD_DRIVER, "c", 3)]
    third = [wanted("third", "stand_by"), *up(THIRD_DRIVER, "third"), wanted("up", family="third")]
    one_way = {"one_way": ["The query a writes commits/ in format v2 instead of v1."]}
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
            "the watch has started the new release again": (warm, back(revived)),
            "another release came after a roll-back": (
                warm,
                back([*BACK, *third, *hands_over(THIRD_DRIVER, 4, OLD, "up")]),
            ),
            "it never ran": ("refused", back()),
            "it is stopped": ("refused", back(STOPPED)),
            "no release held before": ("refused", back(RUNNING)),
            "a hand-over to another one is under way": (
                f"roll-back {NEW_DEPLOYMENT}",
                back([*UPGRADED, *third, requested("c", THIRD_DRIVER, wish="up")]),
            ),
            "a stop is under way": (
                warm,
                back([*UPGRADED, wanted("rest", "stop"), requested("s", None, wish="rest")]),
            ),
            "a roll-back is under way": (warm, back([*BACK[:-3]])),
            "there is no way back": ("refused", back(seen_by(NEW, UPGRADED, one_way))),
            # A run that is cleared must not take back what was asked for later than it was.
            "the release was asked for before this was": (warm, back(UPGRADED, since=100.0)),
            "and was on its way then": (warm, back(took_over_at(200.0), since=120.0)),
            "the release was asked for since": ("done", back(UPGRADED, since=99.0)),
            "it was stopped since": (
                "done",
                back([*UPGRADED, wanted("rest", "stop", at=101.0, by="x/y")], since=100),
            ),
        },
    )


def test_calling_a_release_off() -> None:
    abort = partial(seen, Operation.ABORT)
    new = f"abort {NEW_DEPLOYMENT}"
    down = [*RUNNING, failed(OLD), *once_more(THIRD, OLD_DEPLOYMENT, "old")]
    check(
        __file__,
        Operation.ABORT,
        {
            "a new one stands by": (new, abort(BOTH)),
            "a new one comes up": (new, abort([*RUNNING, *COMES_UP])),
            "its hand-over is under way": (new, abort(ASKED)),
            "the holder has released for it": (new, abort(RELEASED)),
            "it was there when this was asked for": (new, abort(BOTH, since=100.0)),
            "it was asked for since": ("done", abort(BOTH, since=99.0)),
            "the first one stands by": (f"abort {OLD_DEPLOYMENT}", abort(STARTED)),
            "the watch brings back what held": ("refused", abort(down)),
            "a new one comes up beside that": (new, abort([*down, *COMES_UP])),
            "it never ran": ("done", abort()),
            "no other driver is there": ("done", abort(RUNNING)),
            "only what held before is warm": ("done", abort(UPGRADED)),
        },
    )


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
            "the new one comes up": ("refused", promote([*RUNNING, *COMES_UP])),
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

"""What a person is told before what brings a release up: what comes of it is here, the sentences in `golden/`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.rewind import FoundRewind
from tests.support.foretold import (
    ALIVE,
    BEAT,
    HANGS,
    JOB_ENDS,
    NONE,
    OTHER,
    SAME,
    SILENT,
    THIRD,
    THIRD_DRIVER,
    check,
    seen,
)
from tests.support.rehearsals import again as rehearsed
from tests.support.rehearsals import running
from tests.support.story import (
    FOLLOWING,
    HANDED_OVER,
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
    declared,
    failed,
    hash_of,
    record,
    requested,
    retired,
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
            "the same release runs with other settings": ("upgrade", upgrade(RUNNING, SAME)),
            "the holder is silent": ("upgrade", upgrade(RUNNING, beats=SILENT)),
            "the holder hangs": ("upgrade", upgrade(RUNNING, replace(OTHER, hanging=HANGS, restart=True))),
            "restart, an approval, and a driver to end first": ("upgrade", upgrade(PREPARED, both)),
            "a hand-over is under way": ("refused", upgrade(REQUESTED)),
            "a stop is under way": ("refused", upgrade(STOPPING)),
            "there is no release": ("refused", upgrade(RUNNING, NONE)),
            "a driver is to follow a job": ("refused", upgrade(FOLLOWING)),
            "a job is being ended": ("refused", upgrade(JOB_ENDS)),
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
            "a hand-over is under way": ("refused", redeploy(REQUESTED)),
            "there is no release": ("refused", redeploy(RUNNING, NONE)),
            "a driver is to follow a job": ("refused", redeploy(FOLLOWING)),
        },
    )


def doubted(**holder: Any) -> dict[str, Heartbeat]:
    """Heartbeats beside which the rehearsal of `rehearsed(9.0)` is inconclusive."""
    return {OLD: running(1.0, 12.0, **{"at": 109.0, **holder}), NEW: Heartbeat(at=109.0)}


def test_a_promotion() -> None:
    def promote(records: Iterable[Record], wanted: Wanted = OTHER, **more: Any) -> Foreseen:
        return seen(Operation.PROMOTE, records, wanted, **more)

    new, third = f"promote {NEW_DEPLOYMENT}", f"promote {THIRD}"
    stands_by = record("standby", deployment=THIRD, incarnation=THIRD_DRIVER, queries=[{"name": "a"}], rehearsal={})
    silent, hangs = {**ALIVE, NEW: Heartbeat(at=10.0)}, Wanted(hanging=HANGS)
    slow, begun = rehearsed(9.0), [*rehearsed(9.0), requested("p", NEW)]
    check(
        __file__,
        Operation.PROMOTE,
        {
            "a driver holds, another one stands by": (new, promote(PREPARED)),
            "its hand-over is under way": (new, promote(REQUESTED)),
            "the holder hangs": (new, promote(PREPARED, hangs)),
            "the first driver stands by": (f"promote {OLD_DEPLOYMENT}", promote(STARTED)),
            "the holder has failed": (new, promote([*PREPARED, failed(OLD)])),
            "it is stopped": (third, promote([*STOPPED, declared(THIRD), stands_by])),
            "no other driver is there": ("done", promote(RUNNING)),
            "only what held before stands by": ("done", promote(HANDED_OVER)),
            "the new one comes up": ("refused", promote([*RUNNING, declared(NEW_DEPLOYMENT)])),
            "the new one was retired": ("done", promote([*PREPARED, retired(NEW_DEPLOYMENT)])),
            "it waits for an approval": ("refused", promote(PREPARED, Wanted(approval=True))),
            "it is silent": ("refused", promote(PREPARED, beats=silent)),
            "a stop is under way": ("refused", promote([*PREPARED, requested("s", None)])),
            "it was declared since this was asked for": ("done", promote(PREPARED, since=99.0)),
            "its rehearsal was slow": ("refused", promote(slow, beats=doubted())),
            "its rehearsal was too slow for the limits": (
                "refused",
                promote(rehearsed(1.0), Wanted(max_seconds=0.5), beats=doubted()),
            ),
            "its rehearsal has passed": (new, promote(rehearsed(1.0), beats=doubted())),
            "its rehearsal was slow, and the holder is silent": (new, promote(slow, beats=doubted(at=10.0))),
            "its rehearsal was slow, and the holder hangs": (new, promote(slow, hangs, beats=doubted())),
            "its rehearsal was slow, and the holder has failed": (new, promote([*slow, failed(OLD)], beats=doubted())),
            "its rehearsal was slow, and it goes on": (new, promote(begun, beats=doubted())),
            "it is to follow a job": ("refused", promote(FOLLOWING)),
            "a job is being ended": ("refused", promote([*JOB_ENDS, *PREPARED[-3:]])),
        },
    )


# -- a rewind ----------------------------------------------------------------------------------------------------------

TO = WantedRewind(1764000000.0, {"a": {"orders": {0: 40}}})
FOUND = FoundRewind(TO, ("a: 60 records of orders.",))
REWIND = replace(SAME, rewind=FOUND)


def test_a_rewind() -> None:
    first, *rest = RUNNING
    rewound = [replace(first, fields={**first.fields, "rewind": TO.to_json()}), *rest]

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
            "a stop is under way": ("refused", rewind(STOPPING)),
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

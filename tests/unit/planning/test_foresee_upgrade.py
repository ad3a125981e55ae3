"""What a person is told before an upgrade, a redeployment and a promotion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.planning.foresee import foresee
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.rewind import FoundRewind
from tests.support.rehearsals import again, running
from tests.support.snapshots import snapshot
from tests.support.story import (
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

OTHER = Wanted("2", hash_of("other"), soak=600.0)
ALIVE = {name: Heartbeat(at=109.0, queries=(QueryProgress("a", batch=7),)) for name in (OLD, NEW)}
SILENT = {**ALIVE, OLD: Heartbeat(at=10.0, queries=(QueryProgress("a", batch=7),))}
HANGS = f"{OLD} hangs: a has committed nothing for 2 h."
UPGRADES = (Operation.UPGRADE, Operation.REDEPLOY)


def seen(
    operation: Operation,
    *records: Record,
    beats: dict[str, Heartbeat] | None = None,
    wanted: Wanted = OTHER,
    **asked: Any,
) -> Foreseen:
    found = replace(snapshot(*records), heartbeats=ALIVE if beats is None else beats)
    return foresee(found, operation, wanted, **asked)


def test_an_upgrade_names_holder_and_release_and_reads_nothing_again() -> None:
    found = seen(Operation.UPGRADE, *RUNNING)
    assert found.lines == [
        f"orders is running: driver {OLD} with release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}) holds it.",
        "A driver of the YAML's release 2 (" + hash_of("other")[:12] + ") is started beside the one that holds. It "
        "rehearses on a clone of the checkpoint, then it takes the stream over at a batch boundary.",
        "It is watched for 10 min then; if it is no good, the stream is given back to what held before.",
        "A run of the stream's upgrade DAG does all this, also when this command is cut off.",
        "Read again: nothing, as every query stops at a batch boundary.",
    ]
    assert (found.parts, found.release) == ((Operation.UPGRADE,), "")


def test_a_redeployment_is_an_upgrade_of_a_stored_release() -> None:
    found = seen(Operation.REDEPLOY, *RUNNING)
    assert f"A driver of the stored release 2 ({hash_of('other')[:12]}) is started" in found.will[0]
    assert (found.operation, found.parts) == (Operation.REDEPLOY, (Operation.UPGRADE,))
    assert found.release == hash_of("other")


@pytest.mark.parametrize("operation", UPGRADES)
def test_what_runs_already_is_not_deployed_again(operation: Operation) -> None:
    same = Wanted("1", hash_of(OLD_DEPLOYMENT), same=operation is Operation.UPGRADE)
    found = seen(operation, *RUNNING, wanted=same)
    assert found.done == f"Release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}) runs already, just as it is asked for."
    assert (found.parts, found.release) == ((), "")
    assert seen(operation, *RUNNING, wanted=same, beats=SILENT).parts == (Operation.UPGRADE,)
    assert seen(operation, *RUNNING, wanted=replace(same, hanging=HANGS)).parts == (Operation.UPGRADE,)
    assert seen(operation, *STOPPED, wanted=same).parts == (Operation.UPGRADE,)


def test_the_same_release_with_other_settings_is_an_upgrade() -> None:
    assert seen(Operation.UPGRADE, *RUNNING, wanted=Wanted("1", hash_of(OLD_DEPLOYMENT))).parts


@pytest.mark.parametrize("operation", UPGRADES)
@pytest.mark.parametrize(
    ("records", "wanted", "says"),
    [
        (REQUESTED, OTHER, f"The request for {NEW} to hold is under way, by airflow (a person wants it). Ask again"),
        (STOPPING, OTHER, "A stop is under way"),
        (RUNNING, Wanted(problem="There is no file a.py."), "There is no file a.py."),
    ],
)
def test_in_the_middle_of_something_or_without_a_release_nothing_begins(
    operation: Operation, records: list[Record], wanted: Wanted, says: str
) -> None:
    found = seen(operation, *records, wanted=wanted)
    assert says in found.refused
    assert (found.parts, found.release) == ((), "")


def test_who_holds_and_is_broken_is_not_waited_for() -> None:
    silent = seen(Operation.UPGRADE, *RUNNING, beats=SILENT)
    assert "if it stays silent it is killed, and fenced" in silent.will[0]
    assert silent.reads_again.startswith("the batch that is cut off")
    hangs = seen(Operation.UPGRADE, *RUNNING, wanted=replace(OTHER, hanging=HANGS, restart=True))
    assert hangs.will[0] == (f"{HANGS} It is not waited for: it is killed, and fenced once it is confirmed gone.")
    assert "is stopped at a batch boundary first" not in str(hangs)
    assert "(by its last heartbeat batch 8 of a, or a later one)" in hangs.reads_again


def test_the_strategy_the_approval_and_what_is_ended_first_are_said() -> None:
    found = seen(Operation.UPGRADE, *PREPARED, wanted=replace(OTHER, restart=True, approval=True))
    assert found.will[0] == "The holder is stopped at a batch boundary first: the strategy is `restart`."
    assert found.will[1] == f"Ended, to make room for it: {NEW_DEPLOYMENT}."
    assert "is started. It rehearses on a clone of the checkpoint, then it holds." in found.will[2]
    assert found.will[3] == "Between the two a person has to approve it."
    first = seen(Operation.UPGRADE)
    assert first.will[0].endswith("It rehearses on a clone of the checkpoint, then it holds.")
    assert first.will[1].endswith("if it is no good, a person is told.")


def test_a_standby_that_has_never_held_is_promoted() -> None:
    found = seen(Operation.PROMOTE, *PREPARED)
    assert (found.parts, found.deployment) == ((Operation.PROMOTE,), NEW_DEPLOYMENT)
    assert found.will == (
        f"{NEW_DEPLOYMENT} stands by with release 1 ({hash_of(NEW_DEPLOYMENT)[:12]}), and has rehearsed: it takes the "
        "stream over at a batch boundary.",
        f"If {OLD_DEPLOYMENT} does not reach one in time, it goes on, and nothing has changed.",
        "It was brought up by test. Only that run, if it goes on, watches it and takes it back; else roll back by hand "
        "if it is no good.",
    )
    assert found.reads_again == "nothing, as every query stops at a batch boundary."
    asked = seen(Operation.PROMOTE, *REQUESTED)
    assert asked.will[0].endswith("Its end is waited for first.")
    hangs = seen(Operation.PROMOTE, *PREPARED, wanted=Wanted(hanging=HANGS))
    assert hangs.will[0].startswith(HANGS)
    assert hangs.reads_again.startswith("the batch that is cut off")


def test_while_nobody_holds_it_takes_over_at_once() -> None:
    found = seen(Operation.PROMOTE, *STARTED)
    assert found.deployment == OLD_DEPLOYMENT
    assert found.will[0].endswith("it takes the stream over at once, as nobody holds.")
    assert seen(Operation.PROMOTE, *PREPARED, failed(OLD)).parts


@pytest.mark.parametrize(
    ("records", "more", "refused", "done"),
    [
        (RUNNING, {}, "", "No new release stands by."),
        (HANDED_OVER, {}, "", "What held before takes over by a roll-back."),
        ([*RUNNING, declared(NEW_DEPLOYMENT)], {}, "comes up, and has not rehearsed yet: wait for it.", ""),
        ([*PREPARED, retired(NEW_DEPLOYMENT)], {}, "", "No new release stands by."),
        (PREPARED, {"wanted": Wanted(approval=True)}, "waits for a person's approval", ""),
        (PREPARED, {"beats": {**ALIVE, NEW: Heartbeat(at=10.0)}}, f"{NEW} was last heard of 1 min 40 s ago", ""),
        ([*PREPARED, requested("s", None)], {}, "A stop is under way", ""),
        (PREPARED, {"since": 99.0}, "", "was declared since this was asked for, and is left alone."),
    ],
)
def test_what_cannot_be_promoted(records: list[Record], more: dict[str, Any], refused: str, done: str) -> None:
    found = seen(Operation.PROMOTE, *records, **more)
    assert found.parts == ()
    assert (refused in found.refused, done in found.done) == (True, True)
    assert bool(found.refused) == bool(refused)


def doubted(**holder: Any) -> dict[str, Heartbeat]:
    """Heartbeats beside which the rehearsal of `again(9.0)` is inconclusive."""
    return {OLD: running(1.0, 12.0, **{"at": 109.0, **holder}), NEW: Heartbeat(at=109.0)}


def test_a_standby_whose_rehearsal_has_not_passed_waits_for_a_person() -> None:
    found = seen(Operation.PROMOTE, *again(9.0), beats=doubted())
    assert found.refused.startswith(
        f"{NEW_DEPLOYMENT} waits for a person's approval, because its rehearsal has not passed: a: the new release is "
        "9.0 times slower than the old one: "
    )
    assert found.refused.endswith("which leaves little to spare. Answer it in Airflow, or call it off.")
    late = seen(Operation.PROMOTE, *again(1.0), beats=doubted(), wanted=Wanted(max_seconds=0.5))
    assert "took 1.0 s for a batch of live data" in late.refused
    assert seen(Operation.PROMOTE, *again(1.0), beats=doubted()).parts


def test_a_doubt_keeps_nobody_from_promoting_where_what_holds_is_broken() -> None:
    assert seen(Operation.PROMOTE, *again(9.0), beats=doubted(at=10.0)).parts
    assert seen(Operation.PROMOTE, *again(9.0), beats=doubted(), wanted=Wanted(hanging=HANGS)).parts
    assert seen(Operation.PROMOTE, *again(9.0), failed(OLD), beats=doubted()).parts
    begun = seen(Operation.PROMOTE, *again(9.0), requested("p", NEW), beats=doubted())
    assert begun.parts, "a command that is repeated goes on"


def test_a_stopped_stream_is_promoted_too() -> None:
    late = [
        *STOPPED,
        declared("orders-3-cccc"),
        record(
            "standby",
            deployment="orders-3-cccc",
            incarnation="orders-3-cccc.0000000c",
            queries=[{"name": "a"}],
            rehearsal={},
        ),
    ]
    found = seen(Operation.PROMOTE, *late)
    assert found.deployment == "orders-3-cccc"
    assert found.reads_again == "nothing, as every query has stopped at a batch boundary."


# -- a rewind ----------------------------------------------------------------------------------------------------------

BACK = WantedRewind(1764000000.0, {"a": {"orders": {0: 40}}})
SAME = Wanted("1", hash_of(OLD_DEPLOYMENT), soak=600.0, rewind=FoundRewind(BACK, ("a: 60 records of orders.",)))


def test_a_rewind_names_holder_and_release_and_what_is_read_again() -> None:
    found = seen(Operation.REWIND, *RUNNING, wanted=SAME)
    assert found.lines == [
        f"orders is running: driver {OLD} with release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}) holds it.",
        f"A driver of the same release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}) is started beside the one that holds. It "
        "rehearses on a clone of the checkpoint, then it takes the stream over at a batch boundary.",
        "When it holds, and before its queries start, they go back to the first records since 2025-11-24 16:00:00 UTC. "
        "Where they cannot, the new driver fails, nothing was read again, and the watch brings the release back. "
        "Should it be lost first, the next holder does it.",
        "It is watched for 10 min then, but not for its lag: what is read again is behind.",
        "A run of the stream's upgrade DAG does all this, also when this command is cut off.",
        "Read again: a: 60 records of orders. That is what was committed when this was looked at; what is committed "
        "until the hand-over comes on top. A sink gets these records once more, in batches with new numbers: what it "
        "has of them already is there twice then, unless it tells by their contents.",
    ]
    assert (found.parts, found.release) == ((Operation.UPGRADE,), hash_of(OLD_DEPLOYMENT))
    assert found.rewind == {**BACK.to_json(), "held": OLD_DEPLOYMENT}
    near = replace(SAME, rewind=FoundRewind(BACK, ("a: 60 records of orders.",), near=("Kafka deletes it in 5 min.",)))
    assert seen(Operation.REWIND, *RUNNING, wanted=near).reads_again.endswith("contents. Kafka deletes it in 5 min.")
    elsewhere = replace(SAME, rewind=FoundRewind(WantedRewind(BACK.to, {"a": {"orders": {0: 39}}})))
    assert not found.same_as(seen(Operation.REWIND, *RUNNING, wanted=elsewhere)), "a yes is to what was shown"
    assert found.refuse("No.").rewind is None


@pytest.mark.parametrize(
    ("records", "beats", "wanted", "why"),
    [
        (RUNNING, None, replace(SAME, rewind=FoundRewind(problem="It keeps state.")), "It keeps state."),
        (RUNNING, None, replace(SAME, problem="Line 3."), "Line 3."),
        (RUNNING, None, replace(SAME, rewind=None), "No time was given."),
        (RUNNING, SILENT, SAME, "Only a stream that runs is rewound"),
        (RUNNING, None, replace(SAME, hanging=HANGS), "Only a stream that runs is rewound"),
        (STOPPED, None, SAME, "Only a stream that runs is rewound"),
        (STOPPING, None, SAME, "A stop is under way"),
    ],
)
def test_a_rewind_is_refused(
    records: list[Record], beats: dict[str, Heartbeat] | None, wanted: Wanted, why: str
) -> None:
    found = seen(Operation.REWIND, *records, beats=beats, wanted=wanted)
    assert why in found.refused
    assert (found.parts, found.rewind) == ((), None)


def test_a_rewind_that_is_done_is_not_done_again() -> None:
    assert (
        "Kafka has no record since then that a query has read"
        in seen(Operation.REWIND, *RUNNING, wanted=replace(SAME, rewind=FoundRewind())).done
    )
    first, *rest = RUNNING
    rewound = replace(first, fields={**first.fields, "rewind": BACK.to_json()})
    beat = {OLD: replace(ALIVE[OLD], rewind="a goes back after batch 7.")}
    assert seen(Operation.REWIND, rewound, *rest, beats=beat, wanted=SAME).done == (
        f"{OLD_DEPLOYMENT} was to go back to there, and that is done once. a goes back after batch 7. Give another "
        "time to go back again."
    )
    part = replace(SAME, rewind=FoundRewind(WantedRewind(BACK.to, {"a": {"orders": {0: 41}}})))
    assert seen(Operation.REWIND, rewound, *rest, wanted=part).done, "some partitions have nothing new since"
    beat = {OLD: replace(ALIVE[OLD], rewind="Nobody does it any more.", rewind_undone=True)}
    assert seen(Operation.REWIND, rewound, *rest, beats=beat, wanted=SAME).parts, "it was left undone"
    later = replace(SAME, rewind=FoundRewind(WantedRewind(BACK.to + 1, BACK.queries)))
    beat = {OLD: replace(ALIVE[OLD], rewind="a goes back after batch 7.")}
    once_more = seen(Operation.REWIND, rewound, *rest, beats=beat, wanted=later)
    assert once_more.parts
    assert once_more.reads_again.endswith("It was asked for before: a goes back after batch 7.")


def test_no_other_rewind_is_asked_for_while_one_is_carried_out() -> None:
    """Lost now, the second would take the place of the first, of which nobody would hear again."""
    first, *rest = RUNNING
    rewound = replace(first, fields={**first.fields, "rewind": BACK.to_json()})
    later = replace(SAME, rewind=FoundRewind(WantedRewind(BACK.to + 1, BACK.queries)))
    found = seen(Operation.REWIND, rewound, *rest, wanted=later)
    assert found.parts == ()
    assert f"{OLD} was to go back to 2025-11-24 16:00:00 UTC, and has not said yet" in found.refused

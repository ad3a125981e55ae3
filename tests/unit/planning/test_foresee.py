"""What a person is told before a stop, a start, a restart and a stop for good."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.foresee import foresee
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import FOR_GOOD, Operation
from tests.support.snapshots import snapshot
from tests.support.story import (
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
    failed,
    fenced,
    finished,
    hash_of,
    record,
    released,
    retired,
)

SAME = Wanted("1", hash_of(OLD_DEPLOYMENT))
OTHER = Wanted("2", hash_of("other"))
ALIVE = {OLD: Heartbeat(at=109.0, queries=(QueryProgress("a", batch=7),))}
SILENT = {OLD: Heartbeat(at=10.0, queries=(QueryProgress("a", batch=7),))}
ENDED = [*STOPPED, retired(OLD_DEPLOYMENT), retired(NEW_DEPLOYMENT)]


def seen(
    operation: Operation,
    *records: Record,
    beats: dict[str, Heartbeat] | None = None,
    wanted: Wanted = SAME,
    **asked: Any,
) -> Foreseen:
    found = replace(snapshot(*records), heartbeats=ALIVE if beats is None else beats)
    return foresee(found, operation, wanted, **asked)


def test_a_stop_names_holder_and_release_and_reads_nothing_again() -> None:
    found = seen(Operation.STOP, *PREPARED)
    assert found.lines == [
        f"orders is running: driver {OLD} with release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}) holds it.",
        "The holder is asked to stop at a batch boundary, within 1 min. If that is missed, it goes on, and nothing has "
        "changed.",
        "Every driver is ended, and waited for until the cluster confirms that it is gone: "
        f"{OLD_DEPLOYMENT}, {NEW_DEPLOYMENT}.",
        "The watch leaves the stream alone until somebody starts it.",
        "Read again: nothing, as every query stops at a batch boundary.",
    ]
    assert found.parts == (Operation.STOP,)


def test_a_holder_that_seems_lost_is_fenced_and_its_batch_read_again() -> None:
    found = seen(Operation.STOP, *RUNNING, beats=SILENT)
    assert "Its last sign of life is 1 min 40 s old: if it stays silent it is killed, and fenced" in str(found)
    assert "by its last heartbeat batch 8 of a, or a later one" in found.reads_again
    assert "Its last sign" not in str(seen(Operation.STOP, *RUNNING))
    assert "Its last sign" not in str(seen(Operation.STOP, *RUNNING, beats={}))


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (
            REQUESTED,
            f"The request for {NEW} to hold is under way, by airflow (a person wants it). Its end is waited for",
        ),
        (STOPPING, "A stop is under way, by airflow (a person wants it). Its end is waited for first."),
        (INTERRUPTED, f"{OLD} stopped inside a batch: it is killed and fenced first."),
        ([*RUNNING, fenced(OLD)], "Nobody holds it: the control log will say that nobody is to."),
        (STARTED, f"confirms that it is gone: {OLD_DEPLOYMENT}."),
    ],
)
def test_what_comes_first_in_a_stop(records: list[Record], says: str) -> None:
    assert says in str(seen(Operation.STOP, *records))
    assert ("The holder is asked" in str(seen(Operation.STOP, *records))) == (records in (REQUESTED, INTERRUPTED))


def test_a_stop_that_has_been_is_found_done_and_says_whose_it_was() -> None:
    found = seen(Operation.STOP, *ENDED)
    assert (found.parts, found.refused) == ((), "")
    assert found.done == "It was stopped by airflow (a person wants it), and no driver is left by the control log."
    assert found.lines[1] == f"Nothing to do: {found.done}"
    assert seen(Operation.STOP, *STOPPED).parts == (Operation.STOP,)


def test_what_never_ran_is_not_stopped() -> None:
    found = seen(Operation.STOP)
    assert found.lines == [
        "orders is empty: no driver has ever held it.",
        "Refused: No driver has ever held the stream, and none comes up: there is nothing to stop.",
    ]


def test_a_stop_for_good_says_what_is_left_to_be_removed() -> None:
    announced = record(
        "standby",
        deployment=OLD_DEPLOYMENT,
        incarnation=OLD,
        queries=[{"name": "a", "checkpoint": "/c/a/"}, {"name": "b", "checkpoint": "/c/b"}, {"name": "c"}],
    )
    runs = [announced if one.kind == "standby" else one for one in RUNNING]
    found = seen(Operation.RETIRE, *runs)
    assert found.parts == (Operation.STOP,)
    assert found.operation is Operation.RETIRE
    assert "its YAML, /c/a.owner, /c/b.owner, and its control log" in found.will[-1]
    stopped = seen(Operation.RETIRE, *ENDED)
    assert "It is stopped already. The history will say that this is for good." in stopped.lines
    assert "NAME.owner beside each checkpoint" in stopped.will[-1]
    assert stopped.reads_again == "nothing, as every query has stopped at a batch boundary."
    for_good = record("stopped", request="r", reason=f"{FOR_GOOD}moved", by="anna")
    assert seen(Operation.RETIRE, *ENDED, for_good).done
    assert seen(Operation.RETIRE).refused


@pytest.mark.parametrize(
    ("records", "phase", "reads_again"),
    [
        ([], "empty", "nothing by this stream, as no driver has held it"),
        (ENDED, "stopped", "nothing, as every query has stopped at a batch boundary."),
        ([*RUNNING, released(OLD, None, None)], "down", "nothing, as every query has stopped"),
        ([*RUNNING, finished(OLD)], "finished", "the batch that is cut off, if one is under way"),
        ([*RUNNING, failed(OLD)], "failed", "the batch that is cut off, if one is under way"),
        ([*RUNNING, failed(OLD, ends={"a": {"batch": 7}})], "failed", "the batch that failed, if one did"),
        ([*RUNNING, failed(OLD, boundary="interrupted")], "failed", "the batch that is cut off"),
        (
            [*RUNNING, fenced(OLD)],
            "down",
            "the batch that is cut off, if one is under way (by its last heartbeat batch 8",
        ),
        ([*RUNNING, fenced(OLD), record("stopped", request="r", reason="x")], "stopped", "the batch that is cut off"),
    ],
)
def test_a_start_says_what_is_read_again(records: list[Record], phase: str, reads_again: str) -> None:
    found = seen(Operation.START, *records)
    assert (found.phase, found.parts) == (phase, (Operation.START,))
    assert found.reads_again.startswith(reads_again)


def test_a_start_says_which_release_it_is_and_whether_it_is_another_one() -> None:
    same = seen(Operation.START, *ENDED)
    assert f"A driver of the YAML's release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}) is started." in str(same)
    assert "That is not what held last" not in str(same)
    other = seen(Operation.START, *ENDED, wanted=OTHER)
    assert f"That is not what held last: driver {OLD} with release 1" in str(other)
    down = seen(Operation.START, *RUNNING, fenced(OLD))
    assert "Without this, the watch brings back the release that held last" in str(down)
    assert "Without this" not in str(same)


@pytest.mark.parametrize("operation", [Operation.START, Operation.RESTART])
def test_where_an_upgrade_needs_a_person_a_start_does_not_get_round_it(operation: Operation) -> None:
    new = replace(OTHER, version="1", approval=True)
    for records in (ENDED, RUNNING) if operation is Operation.RESTART else (ENDED, []):
        found = seen(operation, *records, wanted=new)
        assert "it wants a person's approval for a new one" in found.refused
        assert found.parts == ()
    assert not seen(operation, *ENDED, wanted=replace(SAME, approval=True)).refused


@pytest.mark.parametrize("operation", [Operation.START, Operation.RESTART])
def test_without_a_release_nothing_is_started_and_nothing_stopped_for_it(operation: Operation) -> None:
    assert seen(operation, *ENDED, wanted=Wanted(problem="There is no apps/a.py.")).refused == "There is no apps/a.py."


def test_a_start_of_what_runs_is_found_done() -> None:
    assert seen(Operation.START, *RUNNING).done == "Release 1 runs already."
    changed = seen(Operation.START, *RUNNING, wanted=replace(OTHER, version="1"))
    assert changed.done.endswith("Its files or settings are not those of the YAML: that takes an upgrade.")


def test_a_start_is_no_upgrade_and_no_fence() -> None:
    other = seen(Operation.START, *RUNNING, wanted=OTHER)
    assert "The YAML asks for release 2" in other.refused
    assert "Upgrade the stream to it, or stop it first." in other.refused
    silent = seen(Operation.START, *RUNNING, beats=SILENT)
    assert "The watch replaces it. Without a watch: fence it, then start the stream." in silent.refused


def test_a_restart_is_a_stop_and_a_start_of_the_same_version() -> None:
    found = seen(Operation.RESTART, *RUNNING)
    assert found.parts == (Operation.STOP, Operation.START)
    assert found.will[0].startswith("The holder is asked to stop")
    assert found.will[-1].startswith("A driver of the YAML's release 1")
    assert "The watch leaves the stream alone" not in str(found)
    assert found.reads_again == "nothing, as every query stops at a batch boundary."
    changed = seen(Operation.RESTART, *RUNNING, wanted=replace(OTHER, version="1"))
    assert "That is not what holds: driver" in str(changed)
    assert "and that is an upgrade" in seen(Operation.RESTART, *RUNNING, wanted=OTHER).refused
    assert seen(Operation.RESTART, *ENDED).parts == (Operation.START,)


@pytest.mark.parametrize("operation", sorted({*Operation} - {Operation.FENCE, Operation.ADOPT}))
def test_only_a_fence_goes_by_a_persons_word(operation: Operation) -> None:
    assert "Only a fence" in seen(operation, *HANDED_OVER, confirmed_by="Ada").refused

"""What a person is told before the driver that holds is fenced, or rolled back from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.foresee import foresee
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation
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
    acquired,
    declared,
    failed,
    fenced,
    hash_of,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    submitted,
)

BACK = [*HANDED_OVER, requested("back", OLD), ready("back", OLD), released(NEW, "back", OLD), acquired(OLD, "back", 3)]
THIRD, THIRD_DRIVER = "orders-3-cccc", "orders-3-cccc.0000000c"
FOURTH, FOURTH_DRIVER = "orders-3-dddd", "orders-3-dddd.0000000d"


def seen(operation: Operation, *records: Record, beats: dict[str, Heartbeat] | None = None, **asked: Any) -> Foreseen:
    return foresee(replace(snapshot(*records), heartbeats=beats or {}), operation, **asked)


def back(*records: Record, **asked: Any) -> Foreseen:
    return seen(Operation.ROLL_BACK, *records, **asked)


def fence(*records: Record, **asked: Any) -> Foreseen:
    return seen(Operation.FENCE, *records, **asked)


def again(deployment: str, of: str, **more: Any) -> list[Record]:
    """Records by which a deployment of the same release comes to hold while nobody does; the epoch is told later."""
    release = {"version": "1", "hash": hash_of(of)}
    return [
        record("declared", deployment=deployment, release=release, policy={}, again=of, **more),
        submitted(deployment),
    ]


def holds(driver: str, epoch: int) -> list[Record]:
    return [standby(driver), requested(driver, driver), ready(driver, driver), acquired(driver, driver, epoch)]


def test_a_roll_back_to_a_warm_release_reads_nothing_again() -> None:
    found = back(*HANDED_OVER)
    assert (found.deployment, found.parts) == (NEW_DEPLOYMENT, (Operation.ROLL_BACK,))
    assert found.will == (
        f"{OLD_DEPLOYMENT} stands by with release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}): it takes the stream over at a "
        "batch boundary.",
        f"{NEW_DEPLOYMENT} is killed and fenced if it does not release the stream in time.",
    )
    assert found.reads_again.startswith(
        "nothing, as every query stops at a batch boundary. If it has to be fenced: the"
    )


def test_a_release_that_is_not_warm_is_started_again() -> None:
    found = back(*HANDED_OVER, retired(OLD_DEPLOYMENT))
    assert found.will[0] == (
        f"No driver with release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}) stands by: one is started from its stored files. "
        "It rehearses on a clone of the checkpoint as it is now, and takes the stream over; if it cannot read that, "
        "the holder goes on."
    )
    assert found.release == hash_of(OLD_DEPLOYMENT)
    assert back(*HANDED_OVER).release == ""
    lost = back(*HANDED_OVER, fenced(NEW))
    assert len(lost.will) == 1
    assert lost.reads_again.startswith("the batch that is cut off")
    silent = back(*HANDED_OVER, beats={NEW: Heartbeat(at=1.0)})
    assert silent.reads_again.startswith("the batch that is cut off")


def test_a_roll_back_that_is_repeated_does_not_go_further_back() -> None:
    assert back(*BACK).done.startswith(f"It is rolled back already, from {NEW_DEPLOYMENT}.")
    # The release before was started again for it, and the watch has started that again since.
    cold = [*HANDED_OVER, retired(OLD_DEPLOYMENT), *again(THIRD, OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT)]
    third = [*cold, standby(THIRD_DRIVER), requested("c", THIRD_DRIVER), ready("c", THIRD_DRIVER)]
    third += [released(NEW, "c", THIRD_DRIVER), acquired(THIRD_DRIVER, "c", 3)]
    assert back(*third).done.startswith(f"It is rolled back already, from {NEW_DEPLOYMENT}.")
    fourth = [*third, failed(THIRD_DRIVER), *again(FOURTH, THIRD), *holds(FOURTH_DRIVER, 4)]
    assert back(*fourth).done.startswith(f"It is rolled back already, from {NEW_DEPLOYMENT}.")


def test_what_the_watch_has_started_again_is_rolled_back_to_the_release_before_it() -> None:
    revived = [*HANDED_OVER, failed(NEW), *again(THIRD, NEW_DEPLOYMENT), *holds(THIRD_DRIVER, 3)]
    found = back(*revived)
    assert found.deployment == NEW_DEPLOYMENT
    assert found.will[0].startswith(f"{OLD_DEPLOYMENT} stands by")


def test_a_release_that_came_after_a_roll_back_can_be_rolled_back_from() -> None:
    upgraded = [*BACK, declared(THIRD), standby(THIRD_DRIVER), requested("c", THIRD_DRIVER), ready("c", THIRD_DRIVER)]
    found = back(*upgraded, released(OLD, "c", THIRD_DRIVER), acquired(THIRD_DRIVER, "c", 4))
    assert (found.deployment, found.done) == (THIRD, "")
    assert found.will[0].startswith(f"{OLD_DEPLOYMENT} stands by")


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([], "Start it with the release that you want, upgrade to it, or redeploy a stored one."),
        (STOPPED, "Nobody holds the stream (it is stopped). Start it with the release that you want"),
        (RUNNING, f"No release is known that held before {OLD_DEPLOYMENT}."),
        (
            [*HANDED_OVER, declared(THIRD), standby(THIRD_DRIVER), requested("c", THIRD_DRIVER)],
            f"The request for {THIRD_DRIVER} to hold is under way, by airflow (a person wants it). Ask again",
        ),
        ([*HANDED_OVER, requested("s", None)], "A stop is under way"),
    ],
)
def test_a_roll_back_with_nothing_to_go_back_to_or_in_the_middle_of_something_is_refused(
    records: list[Record], says: str
) -> None:
    assert says in back(*records).refused


def test_a_roll_back_that_is_under_way_is_waited_for() -> None:
    found = back(*HANDED_OVER, requested("back", OLD))
    assert found.will[0].endswith("Its end is waited for first.")
    assert found.parts


def test_a_roll_back_of_the_same_release_that_was_started_again_is_under_way_too() -> None:
    cold = [*HANDED_OVER, retired(OLD_DEPLOYMENT), *again(THIRD, OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT)]
    found = back(*cold, standby(THIRD_DRIVER), requested("c", THIRD_DRIVER))
    assert found.will[0].endswith("Its end is waited for first.")


def test_calling_off_ends_the_newest_release_that_has_never_held() -> None:
    found = seen(Operation.ABORT, *PREPARED)
    assert (found.deployment, found.parts) == (NEW_DEPLOYMENT, (Operation.ABORT,))
    assert found.will == (
        f"{NEW_DEPLOYMENT} with release 1 ({hash_of(NEW_DEPLOYMENT)[:12]}) stands by, and is ended.",
        "It was brought up by test. A run fails by that; one that waits for an approval, once that is given.",
    )
    assert found.reads_again == "nothing, as the holder goes on."
    coming = seen(Operation.ABORT, *RUNNING, declared(THIRD))
    assert coming.will[0] == f"{THIRD} with release 1 ({hash_of(THIRD)[:12]}) comes up, and is ended."
    asked = seen(Operation.ABORT, *REQUESTED)
    assert asked.will[0].endswith("Its end is waited for; what holds after that is not called off.")


def test_what_was_declared_since_it_was_asked_for_is_not_called_off() -> None:
    assert seen(Operation.ABORT, *PREPARED, since=100.0).parts
    late = seen(Operation.ABORT, *PREPARED, since=99.0)
    assert late.parts == ()
    assert late.done.startswith(f"{NEW_DEPLOYMENT} was declared since this was asked for, and is left alone.")


def test_calling_off_while_nobody_holds_says_so() -> None:
    first = seen(Operation.ABORT, *STARTED)
    assert first.deployment == OLD_DEPLOYMENT
    assert first.will[-1].startswith("Nobody holds the stream.")
    assert first.reads_again.startswith("nothing by this stream")
    down = [*RUNNING, failed(OLD), *again(THIRD, OLD_DEPLOYMENT)]
    assert seen(Operation.ABORT, *down).refused.startswith(f"{THIRD} runs again what held last, as nobody holds.")
    assert seen(Operation.ABORT, *down, declared(NEW_DEPLOYMENT)).deployment == NEW_DEPLOYMENT


@pytest.mark.parametrize("records", [[], RUNNING, HANDED_OVER, [*PREPARED, retired(NEW_DEPLOYMENT)]])
def test_where_no_new_release_is_there_nothing_is_called_off(records: list[Record]) -> None:
    """What held before and is kept warm for a roll-back is none."""
    assert seen(Operation.ABORT, *records).done.startswith("No new release comes up or stands by.")


def test_a_fence_says_which_batch_is_cut_off_and_that_the_watch_brings_the_stream_back() -> None:
    queries = (QueryProgress("a", batch=7), QueryProgress("b"))
    found = fence(*RUNNING, beats={OLD: Heartbeat(at=109.0, queries=queries)})
    assert (found.deployment, found.parts) == (OLD_DEPLOYMENT, (Operation.FENCE,))
    assert "confirms that it is gone, and its heartbeat has stood still for 30 s." in found.will[0]
    assert "the watch brings back the release that held last" in found.will[1]
    assert "(by its last heartbeat batch 8 of a, or a later one)" in found.reads_again
    assert fence(*INTERRUPTED).deployment == OLD_DEPLOYMENT


def test_what_is_stopped_stays_so_after_a_fence() -> None:
    cut = [*RUNNING, requested("s", None), released(OLD, "s", None, "interrupted")]
    assert fence(*cut).phase == "stopped"
    assert len(fence(*cut).will) == 1


def test_a_fence_that_was_is_found_done() -> None:
    assert fence(*RUNNING, fenced(OLD)).done.endswith("No driver stopped inside a batch: there is nothing to fence.")


def test_a_persons_word_is_not_taken_against_a_heartbeat() -> None:
    dead = {OLD: Heartbeat(at=70.0)}
    found = fence(*RUNNING, beats=dead, confirmed_by="Ada")
    assert found.will[0].startswith(f"{OLD} counts as dead by the word of Ada; the cluster is not asked.")
    assert fence(*RUNNING, confirmed_by="Ada").parts
    alive = fence(*RUNNING, beats={OLD: Heartbeat(at=109.0)}, confirmed_by="Ada")
    assert alive.refused.startswith(f"{OLD} was alive 1 s ago, by its heartbeat: it cannot be gone.")
    # For an hour nobody could say that the machine has burnt down.
    ahead = fence(*RUNNING, beats={OLD: Heartbeat(at=110.0 + 3600.0)}, confirmed_by="Ada")
    assert ahead.parts
    assert "Its clock was 1 h ahead of the one here" in ahead.will[0]
    assert "it cannot be gone" in fence(*RUNNING, beats={OLD: Heartbeat(at=115.0)}, confirmed_by="Ada").refused


@pytest.mark.parametrize("operation", [Operation.ROLL_BACK, Operation.FENCE])
def test_who_has_come_to_hold_since_it_was_asked_for_is_left_alone(operation: Operation) -> None:
    """A run that is cleared must not hit another driver than the one that was meant."""
    assert seen(operation, *HANDED_OVER, since=100.0).parts
    late = seen(operation, *HANDED_OVER, since=99.0)
    assert late.parts == ()
    assert late.done == f"{NEW} has come to hold since this was asked for, and is left alone. Ask anew if it is meant."

"""How an upgrade ended, in a line: what is said of the gap, of loss, and of the release before."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.planning.foreseen import Foreseen, Held
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.outcome import kept_warm, read_again, rolled_back, told, took_over, went

HANDED: dict[str, Any] = {
    "request": "r",
    "previous": "orders-1-aaaa",
    "version": "2",
    "boundary": "completed",
    "gap_seconds": {"totals": 1.26, "enrich": 0.5},
}


def test_a_change_between_two_batches_loses_and_doubles_nothing() -> None:
    line = went(HANDED)
    assert line.startswith("Gap: enrich 0.5 s, totals 1.3 s. Nothing lost, nothing doubled (by rule, not counted)")


@pytest.mark.parametrize("boundary", ["interrupted", None])
def test_after_a_driver_that_ended_inside_a_batch_something_may_be_doubled(boundary: str | None) -> None:
    assert "may have the last batch of the old driver twice" in went({**HANDED, "boundary": boundary})
    assert "nothing doubled" not in went({**HANDED, "boundary": boundary})


def test_a_gap_that_was_not_measured_is_not_none() -> None:
    assert went({**HANDED, "gap_seconds": {}}).startswith("Gap: not measured.")


def test_without_a_change_of_holder_nothing_is_said_of_it() -> None:
    assert went({}) == ""
    assert took_over("1", "", {}, "") == "Release 1 runs; no release ran before."


def test_it_is_one_line_with_the_release_before_and_how_long_that_is_warm() -> None:
    line = took_over("2", "1", HANDED, kept_warm("1", 1_800_000_000.0))
    assert line.startswith("Release 2 has taken over from release 1. Gap: ")
    assert line.endswith("Release 1 stays warm until about 2027-01-15 08:00 UTC.")
    assert "\n" not in line
    assert kept_warm("1", None) == "Release 1 is not warm: a roll-back starts it again."


def test_what_was_read_again_on_purpose_is_said() -> None:
    line = read_again(1_800_000_000.0, "enrich goes back after batch 7, and reads 40 records again.")
    assert line == (
        "But it was to read records since 2027-01-15 08:00:00 UTC again, which a sink has twice then, unless it tells "
        "by their contents. enrich goes back after batch 7, and reads 40 records again."
    )
    assert read_again(1_800_000_000.0, "").endswith("Whether it did, the log of its driver says.")


def test_a_roll_back_says_to_which_release() -> None:
    assert rolled_back(HANDED).startswith("Rolled back to release 2. Gap: ")


HELD = Held("orders-1-aaaa.00000001", "orders-1-aaaa", "1", "0123456789abcdef")
NOBODY = "Nobody holds the stream (it is stopped)."


def line(operation: Operation, results: dict[Operation, Any], *parts: Operation, held: Held | None = HELD) -> str:
    found = Foreseen("orders", operation, "running", held, held is not None, parts=parts or (operation,))
    return told(found, "disk of w3.", results, NOBODY)


@pytest.mark.parametrize(
    ("operation", "result", "went"),
    [
        (
            Operation.STOP,
            {"stopped": True, "boundary": "completed"},
            "Every query stopped at a batch boundary: nothing is ",
        ),
        (Operation.STOP, {"stopped": True, "boundary": "interrupted"}, "It was driver"),
        (Operation.FENCE, {"fenced": ["a.1", "a.2"]}, "Confirmed dead: a.1, a.2."),
        (Operation.FENCE, {"fenced": []}, "Nothing was fenced: the driver had ended."),
        (Operation.ABORT, {"retired": "b"}, "Ended: b."),
        (Operation.ABORT, {}, "Nothing was ended: it had ended already."),
        (Operation.ROLL_BACK, {"gap_seconds": {"b": 2.0, "a": 1.23}}, "Gap: a 1.2 s, b 2.0 s."),
        (Operation.START, {"gap_seconds": {}}, "It was driver"),
    ],
)
def test_it_says_what_was_done_and_why_and_how_it_went(operation: Operation, result: Any, went: str) -> None:
    text = line(operation, {operation: result})
    assert text.startswith(f"{operation.past}: disk of w3. {went}")
    assert text.endswith(f"It was driver {HELD.driver} with release 1 (0123456789ab). {NOBODY}")


def test_all_parts_are_told() -> None:
    results = {Operation.STOP: {"stopped": True, "boundary": "completed"}, Operation.START: {"gap_seconds": {"a": 9.0}}}
    text = line(Operation.RESTART, results, Operation.STOP, Operation.START, held=None)
    assert text == (
        f"Restarted: disk of w3. Every query stopped at a batch boundary: nothing is read again. Gap: a 9.0 s. {NOBODY}"
    )


def test_what_was_not_done_is_told_too() -> None:
    done = Foreseen("orders", Operation.STOP, "stopped", HELD, False, done="It was stopped by anna.")
    assert told(done, "x", {}, NOBODY) == "Nothing to do (stop): It was stopped by anna."
    refused = Foreseen("orders", Operation.ROLL_BACK, "empty", None, False, refused="Nothing ran.")
    assert told(refused, "x", {}, NOBODY) == "Refused to roll-back: Nothing ran."


@pytest.mark.parametrize("operation", [Operation.UPGRADE, Operation.REDEPLOY])
def test_an_upgrade_is_told_as_far_as_it_has_come(operation: Operation) -> None:
    ended = {Operation.UPGRADE: {"run": "r", "state": "success"}}
    assert line(operation, ended, Operation.UPGRADE).startswith(
        f"{operation.past}: disk of w3. Run r ended well. It was"
    )
    begun = line(operation, {Operation.UPGRADE: {"run": "r"}}, Operation.UPGRADE)
    assert begun.startswith(f"Asked to {operation}: disk of w3. Run r does it, and goes on by itself. It was driver")
    assert line(operation, {}, Operation.UPGRADE).startswith(f"Asked to {operation}: disk of w3. It was driver")

"""The line that tells what was done."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.planning.foreseen import Foreseen, Held
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.outcome import told

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
        (Operation.STOP, {"stopped": False}, "Nothing was stopped: somebody has started the stream since."),
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

"""How an upgrade ended, in a line: what is said of the gap, of loss, and of the release before."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.planning.outcome import kept_warm, read_again, rolled_back, took_over, went

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

"""A driver that beats and gets nothing done is told from one that is slow, and from one that has nothing to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.report import Ceilings, Verdict
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryHealth, QueryProgress
from airflow_stream_provider.planning.hanging import crash_loops, hanging, needs_to_tell
from tests.support.lag_reports import partition, report
from tests.support.snapshots import RUNNING, snapshot
from tests.support.story import OLD, OLD_DEPLOYMENT, declared_again, fenced, retired, wanted

NOW = 10_000.0
# Ten times the default of `boundary_seconds`.
TEN_MINUTES = 600.0
HOUR = LagLimits(ceilings=Ceilings(commit_age=3600.0))


def found(limits: LagLimits, *, at: float = NOW, verdict: Verdict = Verdict.STOP, **query: Any) -> str:
    said = report(partition(20, verdict=verdict), **{"commit_age": 700.0, "unread_for": {TEN_MINUTES: True}, **query})
    return hanging(replace(snapshot(*RUNNING, at=at), lag=said), limits)


def test_nothing_is_committed_for_ten_boundaries_while_records_wait() -> None:
    assert found(LagLimits()) == (
        f"{OLD} hangs: enrich has committed nothing for 11 min 40 s, though records as old wait for it."
    )
    assert needs_to_tell(snapshot(*RUNNING), LagLimits()).ages == {TEN_MINUTES}


@pytest.mark.parametrize(
    "query",
    [
        {"commit_age": 500.0},
        {"commit_age": None},
        {"unread_for": {TEN_MINUTES: False}},
        {"unread_for": {}, "seconds": None},
        {"verdict": Verdict.OK},  # its last commits span as long: a long trigger
        {"at": 150.0},  # it has only just come to hold
        {"verdict": None},  # for how long it waits by design is not known
        {"quiet_until": 1000.0 - 100.0},  # its trigger was due 100 s ago
    ],
)
def test_what_may_be_something_else_is_none(query: dict[str, Any]) -> None:
    assert found(LagLimits(), **query) == ""


@pytest.mark.parametrize(
    ("state", "hangs"), [("lost", False), ("retrying", False), ("waiting", True), ("running", True)]
)
def test_a_query_that_has_failed_is_at_its_boundary_and_does_not_hang(state: str, hangs: bool) -> None:
    """Found by a review: the holder was fenced for it, and its other queries cut off inside a batch."""
    said = report(partition(20, verdict=Verdict.STOP), commit_age=700.0, unread_for={TEN_MINUTES: True})
    beat = Heartbeat(counter=1, queries=(QueryProgress("enrich", health=QueryHealth(state)),))
    look = replace(snapshot(*RUNNING, at=NOW), lag=said, heartbeats={OLD: beat})
    assert bool(hanging(look, LagLimits())) is hangs


def test_a_limit_that_somebody_has_set_counts_instead() -> None:
    hour: dict[str, Any] = {"unread_for": {3600.0: True}, "verdict": Verdict.OK}
    assert found(HOUR, commit_age=3500.0, **hour) == ""
    assert "for 1 h 1 min" in found(HOUR, commit_age=3700.0, **hour)
    assert found(HOUR, commit_age=3700.0, quiet_until=1000.0, **hour) == "", (
        "it waits by design, and would stop at once"
    )
    assert needs_to_tell(snapshot(*RUNNING), HOUR).ages == {3600.0}


def test_without_a_lag_or_a_holder_nobody_hangs() -> None:
    assert hanging(snapshot(*RUNNING, at=NOW), LagLimits()) == ""
    down = replace(snapshot(*RUNNING, fenced(OLD), at=NOW), lag=report(partition(20), commit_age=700.0))
    assert hanging(down, LagLimits()) == ""


def brought_back(number: int, at: float) -> list[Any]:
    name = f"orders-1-aaaa-{number}"
    return [declared_again(name, OLD_DEPLOYMENT, family="old", at=at), retired(name)]


@pytest.mark.parametrize(
    ("tries", "loops"),
    [
        ([brought_back(n, NOW) for n in range(3)], True),
        ([brought_back(n, NOW) for n in range(2)], False),
        ([brought_back(n, NOW - 3700.0) for n in range(3)], False),
        ([*(brought_back(n, NOW) for n in range(3)), [wanted("more", family="old")]], False),
    ],
)
def test_a_release_that_is_brought_back_again_and_again_does_not_stay_up(tries: list[Any], loops: bool) -> None:
    found = crash_loops(snapshot(*RUNNING, *(one for each in tries for one in each), at=NOW))
    assert found == (
        f"{OLD_DEPLOYMENT} does not stay up: its release was brought back 3 times in the last hour." if loops else ""
    )


def test_where_nobody_holds_nothing_loops() -> None:
    assert crash_loops(snapshot(*RUNNING, fenced(OLD), at=NOW)) == ""

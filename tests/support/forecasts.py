"""What a person is told before an operation on a small stream, and what comes of it, for tables of situations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.asked import Asked
from airflow_stream_provider.planning.forecast import forecast
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from tests.support.golden import assert_golden
from tests.support.snapshots import BOTH, RUNNING, snapshot, up
from tests.support.story import NEW, OLD, OLD_DEPLOYMENT, fenced, hash_of, requested, wanted

SAME = Wanted("1", hash_of(OLD_DEPLOYMENT), soak=600.0)
OTHER = Wanted("2", hash_of("other"), soak=600.0)
CHANGED = replace(OTHER, version="1")
NONE = Wanted(problem="There is no apps/a.py.")
HANGS = f"{OLD} hangs: a has committed nothing for 2 h."
BEAT = Heartbeat(at=109.0, queries=(QueryProgress("a", batch=7),))
ALIVE = {OLD: BEAT, NEW: BEAT}
SILENT = {**ALIVE, OLD: replace(BEAT, at=10.0)}
DOWN = [*RUNNING, fenced(OLD)]
STARTED = [wanted("old"), *up(OLD, "old")]
STOPPING = [*BOTH, wanted("rest", "stop"), requested("s", None, wish="rest")]

JOB = "driver-1"
RUNS = UnmanagedView(JOB, DriverState.RUNNING, f"driver {JOB} (orders) of spark", Remains(("It runs.",)))
HAS_ENDED = replace(RUNS, state=DriverState.KILLED, remains=Remains())

Row = tuple[str, Foreseen]


def seen(
    operation: Operation,
    records: Iterable[Record] = (),
    wanted: Wanted = SAME,
    beats: dict[str, Heartbeat] = ALIVE,
    job_view: UnmanagedView | None = None,
    **asked: Any,
) -> Foreseen:
    found = snapshot(*records)
    known = {name: beat for name, beat in beats.items() if name in found.state.incarnations}
    return forecast(Asked(replace(found, heartbeats=known, job=job_view), operation, wanted, **asked))


def comes_of_it(found: Foreseen) -> str:
    """Return what comes of it in a word: refused, done already, or its parts and what they are of."""
    if found.refused or found.done:
        assert (found.parts, found.release, found.rewind) == ((), "", None)
        return "refused" if found.refused else "done"
    return " ".join((*found.parts, *filter(None, (found.deployment, found.release))))


def check(test_file: str, operation: Operation, table: dict[str, Row]) -> None:
    """Check what comes of an operation in each situation, and what is told then after how the stream stands."""
    found = {name: comes_of_it(foreseen) for name, (_, foreseen) in table.items()}
    assert found == {name: expected for name, (expected, _) in table.items()}
    said = {name: "\n".join(foreseen.lines[1:]) for name, (_, foreseen) in table.items()}
    assert_golden(test_file, operation.value, said)

"""The facts of a small run in which nothing is wrong, to be spoilt: 60 orders of 30 customers in three batches."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from airflow_stream_provider.lifecycle.record import Record
from chaos.batches import Batch
from chaos.checker import Facts, judge
from chaos.producer import Produced
from chaos.records import compare
from chaos.report import Report
from devstack.audit import TopicRecord
from devstack.workload import CUSTOMERS, encode, order
from tests.support.story import NEW, OLD, PREPARED, RUNNING, acquired, fenced, ready, requested

# Every customer has two: number n, and n + 997.
NUMBERS = [*range(30), *range(CUSTOMERS, CUSTOMERS + 30)]
# So many orders of each of the two partitions of the input are in a batch.
IN_A_BATCH = 10
# OLD has held since then; the batches are planned at 100, 110 and 120, and committed 5 s later.
HELD_SINCE, PLANNED, EVERY, OPEN_FOR = 95.0, 100.0, 10.0, 5.0


def inputs(numbers: Iterable[int] = NUMBERS) -> list[TopicRecord]:
    """Return the input topic with these orders, in partition 0 and 1 by their customer."""
    offsets = (itertools.count(), itertools.count())
    found = []
    for number in numbers:
        partition = number % CUSTOMERS % 2
        found.append(TopicRecord(partition, next(offsets[partition]), *encode(number), at=PLANNED))
    return found


def outputs(numbers: Iterable[int] = NUMBERS, times: Sequence[float] = ()) -> list[TopicRecord]:
    """Return the enriched orders, in this order, in one partition.

    :param times: when each was written; by default a second after the batch was planned to which so many belong.
    """
    rows = [{**order(number), "euros": 1.0} for number in numbers]
    return [
        TopicRecord(
            0,
            offset,
            str(row["id"]).encode(),
            json.dumps(row).encode(),
            at=times[offset] if times else PLANNED + EVERY * (offset // (2 * IN_A_BATCH)) + 1,
        )
        for offset, row in enumerate(rows)
    ]


def batches(count: int = 3) -> list[Batch]:
    """Return the batches of a query."""
    return [
        Batch(n, dict.fromkeys((0, 1), (n + 1) * IN_A_BATCH), PLANNED + n * EVERY, PLANNED + n * EVERY + OPEN_FOR)
        for n in range(count)
    ]


def timed(records: Sequence[Record], *, end: float = HELD_SINCE) -> list[tuple[Record, float]]:
    """Return records with numbers and times, one second apart; the last one is at `end`."""
    return [(each.numbered(n), end - len(records) + n) for n, each in enumerate(records, 1)]


def later(before: Sequence[tuple[Record, float]], *more: tuple[Record, float]) -> tuple[tuple[Record, float], ...]:
    """Return a log with more records, each with its time."""
    added = [(each.numbered(len(before) + n), at) for n, (each, at) in enumerate(more, 1)]
    return (*before, *added)


def good(**changes: Any) -> Facts:
    """Return the facts of the run, with some of them changed."""
    facts = Facts(
        produced=Produced(
            {json.loads(each.value)["id"]: (each.partition, each.offset) for each in inputs()}, frozenset()
        ),
        inputs=inputs(),
        outputs=outputs(),
        totals=compare(inputs(), outputs()).totals,
        batches={"enrich": batches(), "totals": batches()},
        records=timed(RUNNING),
        spans={OLD: [(HELD_SINCE, 130.0)]},
    )
    return replace(facts, **changes)


def fault(at: float, kind: str = "kill", target: str = "holder", **fields: Any) -> dict[str, Any]:
    """Return a fault of the journal, which strikes OLD unless it says something else."""
    line = {"at": at, "what": "fault", "id": "f1", "kind": kind, "target": target, "state": "running"}
    return {
        **line,
        "incarnation": OLD,
        "pids": [1],
        "drivers": ["holder"],
        "seconds": 0.0,
        "trigger": "a test",
        **fields,
    }


# Long before everything else, so that there was one; it explains and delays nothing.
HARMLESS = (
    fault(1.0, kind="clock_jump", target="task", id="f0", incarnation=""),
    {"at": 1.0, "what": "healed", "id": "f0"},
)
RECOVERED = {"at": 160.0, "what": "recovered", "fault": "f1", "seconds": 12.0}


def judged(facts: Facts, *journal: dict[str, Any]) -> Report:
    """Return the report of these facts, of a run with at least one fault."""
    return judge(facts, [*HARMLESS, *journal], seed=1, minutes=1.0, commit="abc")


def in_two_holds(end: Record, *copies: float) -> Facts:
    """Return the facts of a run in which OLD's hold ended at 112, inside batch 1, and NEW held from 113 at the latest.

    :param copies: when each copy of order 20 was written, oldest first; NEW has written the rest of the batch at 114.
    """
    must = [fenced(OLD)] if end.get("boundary") == "interrupted" else []
    more = [end, *must, requested("again", NEW), ready("again", NEW), acquired(NEW, "again", 2)]
    log = later(timed(PREPARED), *((each, 112.0 + 0.25 * n) for n, each in enumerate(more)))
    numbers = [*NUMBERS[:20], *[20] * len(copies), *NUMBERS[21:]]
    times = [*[101.0] * 20, *copies, *[114.95] * 19, *[121.0] * 20]
    spans = {OLD: [(HELD_SINCE, 112.0)], NEW: [(113.0, 130.0)]}
    return good(outputs=outputs(numbers, times), records=log, spans=spans)

"""Compare how fast a new release is, and how large its state, with the release that runs or ran before it. Pure.

A batch takes a fixed time and a time for each of its rows, and no two batches are of the same size. So a release counts
as slower only where its batches take longer, its rows take longer, and so does the batch that both have run: whatever
the sizes, one that is at most TWICE as slow is then never taken for a slower one. And being slower is no fault of one
that has time to spare: it is held against the rows that come in, and not against the old release, which may have been
much faster than it had to be. Where already the old release runs one batch after the other without a pause, its batches
have the rows that came in during the one before: larger ones may make up for longer ones.

No release is refused for being slow: the old one ran its batches before, on a machine that had less to do then, or on
other cores. Only a person tells that from a slow release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress

# So much slower may be due to a busy machine, or to caches that are not filled yet.
TWICE = 2.0
# A release that is slower must process so many times the rows that come in: load has peaks.
SPARE = 1.5
# Batches with a smaller part of the other side's rows tell of no more than the time that an empty batch takes.
FEW_ROWS = 0.1
# Bytes. State that takes less memory more than before is no reason to ask anybody.
STATE_MEMORY = 64 * 2**20
# Fewer rows of state come and go by chance.
STATE_ROWS = 1000
# An outage of Kafka or of the storage fails a query once or twice.
FAILURES = 3
UNCOUNTED = "of a source other than Kafka, Spark counts a row once for each action of a foreachBatch function"


class Compared(StrEnum):
    """The result of a comparison for a new release."""

    PASS = "pass"
    INCONCLUSIVE = "inconclusive"  # a person has to look


@dataclass(frozen=True)
class Pace:
    """How one release does with one query.

    :param batches: rows and seconds of its last batches that had rows, by number where that is known.
    :param cold: whether each of them was the first of a query that had just started: that plans, loads its state, and
        the very first one loads classes and generates code, too.
    :param arriving: rows per second that came in meanwhile; None when it is not known.
    :param state_rows: None when it is not known, as `state_bytes` and `failures`.
    :param same: number of the batch, among these, that the other side has run, too; the state is that after it.
    :param exact: whether each row counts once (`QueryProgress.rows_exact`), so that rows can be compared; None when it
        is not known.
    :param doubt: why it was rehearsed in part only; empty if it was as a whole.
    """

    batches: tuple[tuple[int | None, int, float], ...] = ()
    cold: bool = False
    arriving: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    failures: int | None = None
    same: int | None = None
    exact: bool | None = None
    doubt: str = ""

    @property
    def rows(self) -> int:
        """Rows of all its batches."""
        return sum(rows for _, rows, _ in self.batches)

    @property
    def batch_seconds(self) -> float | None:
        """How long a batch takes on average; None without one."""
        return sum(seconds for *_, seconds in self.batches) / len(self.batches) if self.batches else None

    @property
    def rows_per_second(self) -> float | None:
        """Rows that it processes while it runs batches; None without one."""
        return self.rows / sum(seconds for *_, seconds in self.batches) if self.batches else None

    @property
    def capacity(self) -> float | None:
        """Rows per second that it can process at least: as in the best of its batches."""
        return max((rows / seconds for _, rows, seconds in self.batches), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return what people are shown."""
        return {
            "batch_seconds": _rounded(self.batch_seconds),
            "rows": self.rows if self.batches else None,
            "rows_per_second": _rounded(self.rows_per_second),
            "arriving_per_second": _rounded(self.arriving),
            "state_rows": self.state_rows,
            "state_bytes": self.state_bytes,
            "failures": self.failures,
        }


@dataclass(frozen=True)
class QueryComparison:
    """One query of both releases: the verdict, why, and how many times slower the new one is; None when unknown."""

    verdict: Compared
    sentence: str
    new: Pace
    old: Pace
    slower: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as an XCom has it."""
        return {
            "verdict": self.verdict.value,
            "sentence": self.sentence,
            "slower": _rounded(self.slower),
            "new": self.new.to_json(),
            "old": self.old.to_json(),
        }


@dataclass(frozen=True)
class Comparison:
    """All queries of both releases, by name."""

    queries: Mapping[str, QueryComparison] = field(default_factory=dict)

    @property
    def verdict(self) -> Compared:
        """The worst of the queries'; PASS without any."""
        return Compared.INCONCLUSIVE if self.reasons else Compared.PASS

    @property
    def reasons(self) -> tuple[str, ...]:
        """A sentence for each query that does not pass."""
        return tuple(each.sentence for each in self.queries.values() if each.verdict is not Compared.PASS)

    def to_json(self) -> dict[str, Any]:
        """Return `verdict`, `reasons` and `queries`."""
        return {
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "queries": {name: each.to_json() for name, each in self.queries.items()},
        }

    def table(self) -> list[str]:
        """Return lines for a log: one for each side of each query, and its judgement."""
        head = ("query", "release", "seconds a batch", "rows/s", "coming in/s", "state rows", "state bytes", "failures")
        rows: list[tuple[str, ...]] = [head]
        for name, each in self.queries.items():
            for side, pace in (("new", each.new), ("old", each.old)):
                said = {key: "?" if value is None else str(value) for key, value in pace.to_json().items()}
                said.pop("rows")
                rows.append((name, side, *said.values()))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return [*lines, *(each.sentence for each in self.queries.values())]


def compare(new: Mapping[str, Pace], old: Mapping[str, Pace] | None) -> Comparison:
    """Compare each query of a new release with that of this name of the old one; None: there are no numbers of an old
    one.
    """
    return Comparison({name: _compare(name, pace, old) for name, pace in new.items()})


def rehearsed(queries: Mapping[str, Mapping[str, Any]]) -> dict[str, Pace]:
    """Return how fast a standby was, by query, from the summary of its rehearsal.

    The comparison counts the holder's last batch, which it ran again once it was warm, and its own batches but the
    first. The former alone may speak for it, and not against it: the query began with it.
    """
    return {name: _rehearsed(summary) for name, summary in queries.items()}


def running(heartbeat: Heartbeat | None) -> dict[str, Pace]:
    """Return how fast a holder is, or was when it gave the stream up, by query, from its heartbeat."""
    return {query.name: _running(query) for query in (heartbeat.queries if heartbeat else ())}


def _rehearsed(summary: Mapping[str, Any]) -> Pace:
    warm_up = [
        (None, rows, seconds)
        for rows, seconds in zip(summary.get("batch_rows", ()), summary.get("batch_seconds", ()), strict=False)
    ]
    again = summary.get("again") or {}
    ran_again = [(again["batch"], again["rows"], again["seconds"])] if again else []
    later = _with_rows(warm_up[1:])
    return Pace(
        batches=_with_rows(ran_again) + later or _with_rows(warm_up),
        cold=not later,
        state_rows=again.get("state_rows"),
        state_bytes=again.get("state_bytes"),
        same=again.get("batch"),
        exact=summary.get("rows_exact"),
        doubt=summary.get("doubt", ""),
    )


def _running(query: QueryProgress) -> Pace:
    return Pace(
        batches=_with_rows((batch.id, batch.rows, batch.seconds) for batch in query.batches),
        arriving=_arriving(query),
        state_rows=query.state_rows,
        state_bytes=query.state_bytes,
        failures=query.failures,
        exact=query.rows_exact,
    )


def _with_rows(batches: Iterable[tuple[int | None, int, float]]) -> tuple[tuple[int | None, int, float], ...]:
    return tuple((id, rows, seconds) for id, rows, seconds in batches if rows > 0 and seconds > 0)


def _arriving(query: QueryProgress) -> float | None:
    """Return the rows that the last batches read, by the time from the first to the last of them."""
    if len(query.batches) < 2:
        return None
    first, last = query.batches[0], query.batches[-1]
    span = last.at - first.at
    later = query.batches[1:]
    # Only some of the batches that take less than a second are there; they stand for the others.
    ran = last.id - first.id
    return sum(batch.rows for batch in later) / len(later) * ran / span if span > 0 and ran > 0 else None


def _compare(name: str, new: Pace, others: Mapping[str, Pace] | None) -> QueryComparison:
    if others is None:
        return QueryComparison(Compared.PASS, f"{name}: no release runs that it could be compared with.", new, Pace())
    old = others.get(name)
    if old is None:
        return QueryComparison(Compared.PASS, f"{name}: the old release has no such query.", new, Pace())
    slower = _times_slower(new, old)
    verdict, sentence = (Compared.INCONCLUSIVE, new.doubt) if new.doubt else _speed(new, old, slower)
    if verdict is Compared.PASS:
        doubt = _failures(new, old) or _state(new, old)
        verdict, sentence = (Compared.INCONCLUSIVE, doubt) if doubt else (verdict, sentence)
    return QueryComparison(verdict, f"{name}: {sentence}", new, old, slower)


def _times_slower(new: Pace, old: Pace) -> float | None:
    """Return how many times slower the new release is by the measure that speaks most for it; None without rows."""
    if not (new.rows_per_second and old.rows_per_second and new.batch_seconds and old.batch_seconds):
        return None
    both = [
        seconds / others
        for id, rows, seconds in new.batches
        for other, read, others in old.batches
        if id is not None and id == other == new.same and (rows == read or not _rows_known(new, old))
    ]
    each = [old.rows_per_second / new.rows_per_second] if _rows_known(new, old) else []
    # As people see it: twice as slow must not count as more by the sum of rounded seconds.
    return _rounded(min([new.batch_seconds / old.batch_seconds, *each, *both]))


def _rows_known(new: Pace, old: Pace) -> bool:
    return bool(new.exact and old.exact)


def _speed(new: Pace, old: Pace, slower: float | None) -> tuple[Compared, str]:
    if slower is None:
        who = "new" if old.batches else "old"
        return Compared.PASS, f"the {who} release has read no rows lately: there is nothing to compare."
    most, usual = max(rows for _, rows, _ in new.batches), median(rows for _, rows, _ in old.batches)
    if _rows_known(new, old) and most < FEW_ROWS * usual:
        return Compared.INCONCLUSIVE, (
            f"the largest batch of the new release had {_number(most)} rows, and one of the old release has "
            f"{_number(usual)}: that is too few to compare them."
        )
    if slower <= TWICE:
        return Compared.PASS, "the new release is about as fast as the old one."
    says = f"the new release is {slower:.1f} times slower than the old one"
    capacity, usual_rate, arriving = new.capacity, old.rows_per_second, old.arriving
    assert capacity is not None, "both have read rows"
    assert usual_rate is not None, "both have read rows"
    if new.cold:
        return Compared.PASS, f"{says}; but only the first batch of a query was seen, which is always slow."
    if not _rows_known(new, old):
        return Compared.INCONCLUSIVE, f"{says}, by the time of its batches alone: {UNCOUNTED}."
    if arriving is not None:
        says += f": it processes {_number(capacity)} rows a second, and {_number(arriving)} come in"
        if capacity >= SPARE * arriving:
            return Compared.PASS, f"{says}, which is fast enough."
    if arriving is None:
        return Compared.INCONCLUSIVE, f"{says}, and how many rows come in is not known."
    if capacity >= arriving:
        return Compared.INCONCLUSIVE, f"{says}, which leaves little to spare."
    if usual_rate < SPARE * arriving:
        return Compared.INCONCLUSIVE, (
            f"{says}, of which the old release also takes as many at a time as it can: whether larger batches make up "
            "for it is not known."
        )
    return Compared.INCONCLUSIVE, f"{says}, which is too slow, if it was not the machine that was busy."


def _failures(new: Pace, old: Pace) -> str:
    if (new.failures or 0) < FAILURES or old.failures:
        return ""
    return f"it has failed {new.failures} times and was started again; under the old release it never did."


def _state(new: Pace, old: Pace) -> str:
    if new.state_bytes is not None and old.state_bytes is not None:
        more = new.state_bytes - old.state_bytes
        if new.state_bytes > TWICE * old.state_bytes and more > STATE_MEMORY:
            return (
                f"its state takes {_number(new.state_bytes / 2**20)} MiB of memory; under the old release it takes "
                f"{_number(old.state_bytes / 2**20)}."
            )
    if new.same is None or new.state_rows is None or old.state_rows is None:
        return ""
    less, more = sorted((new.state_rows, old.state_rows))
    if more < STATE_ROWS or more <= TWICE * less:
        return ""
    return (
        f"after the same batch its state has {_number(new.state_rows)} rows; under the old release it has "
        f"{_number(old.state_rows)}."
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

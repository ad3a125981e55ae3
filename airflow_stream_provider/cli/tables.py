"""The tables of `airflow streams`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from airflow_stream_provider.cli.status import StreamStatus
from airflow_stream_provider.lag.formatting import count, duration
from airflow_stream_provider.lag.limits import Health, LagJudgement
from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lag.report import Ceilings, LagReport, QueryLag
from airflow_stream_provider.lifecycle.plain_text import plain
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.monitoring.silence import phase_words

PARTITIONS = 20

_COLOURS = {Health.PASS: "green", Health.FAIL: "red", Health.UNKNOWN: "yellow"}


def lag_view(stream: str, look: LagLook, judgement: LagJudgement, ceilings: Ceilings) -> RenderableType:
    """Return the judgement, one row for each query, the partitions to look at first, and the reasons."""
    colour = _COLOURS[judgement.health]
    parts: list[RenderableType] = [as_text(f"{stream}: {judgement.health.value.upper()}", f"bold {colour}")]
    report = look.report
    if report is not None and report.queries:
        parts.append(_queries(report, ceilings))
        parts += [_partitions(query) for query in report.queries if query.partitions]
    parts += [as_text(reason, colour) for reason in judgement.reasons]
    return Group(*parts)


def status_table(lines: Sequence[StreamStatus], now: float) -> RenderableType:
    """Return one row for each stream, and the problems below the table. `now`: seconds since 1970."""
    table = Table("stream", "phase", "sign of life", "version", "behind", "oldest", "verdict, alarms", "measured")
    problems = []
    for line in lines:
        sample = line.sample
        add_row(
            table,
            line.stream,
            phase_words(line.phase, line.silent_seconds) or "?",
            _ago(line.silent_seconds),
            line.version or "-",
            count(sample.records if sample else None),
            duration(sample.seconds if sample else None),
            as_text(_verdicts(sample) if sample else "?", ("green", "yellow", "red", "yellow")[line.code]),
            f"{duration(now - sample.at)} ago" if sample else "never",
        )
        if line.problem:
            problems.append(as_text(f"{line.stream}: {line.problem}", "yellow"))
    return Group(table, *problems)


def samples_table(stream: str, samples: Sequence[LagSample]) -> RenderableType:
    """Return one row for each sample, oldest first."""
    columns = ("at", "phase", "sign of life", "version", "behind", "oldest", "verdict, alarms", "incidents")
    table = Table(*columns, title=as_text(stream, "table.title"))
    for sample in samples:
        add_row(
            table,
            moment(sample.at),
            phase_words(sample.phase, sample.silent_seconds),
            _ago(sample.silent_seconds),
            sample.version or "-",
            count(sample.records),
            duration(sample.seconds),
            as_text(_verdicts(sample), _COLOURS[sample.health]),
            ", ".join(sorted(set(sample.open_incidents.values()))) or sample.problem,
        )
    return table


def _queries(report: LagReport, ceilings: Ceilings) -> Table:
    table = Table("query", "verdict", "behind", "oldest", "last commit", "lost", "deleted in", "alarms")
    for query in report.queries:
        add_row(
            table,
            query.query,
            query.verdict.value,
            count(query.records),
            duration(query.seconds),
            "?" if query.commit_age is None else f"{duration(query.commit_age)} ago",
            count(query.lost),
            "-" if query.retention_seconds is None else duration(query.retention_seconds),
            ", ".join(alarm.value for alarm in query.alarms(ceilings)) or "-",
        )
    return table


def _partitions(query: QueryLag) -> Table:
    shown = query.furthest[:PARTITIONS]
    more = len(query.partitions) - len(shown)
    table = Table(
        "topic",
        "partition",
        "state",
        "verdict",
        "committed",
        "end",
        "behind",
        "oldest",
        title=as_text(query.query, "table.title"),
        caption=f"{more} partitions with less lag are not shown" if more else None,
    )
    for partition in shown:
        add_row(
            table,
            partition.topic,
            str(partition.partition),
            partition.state.value,
            partition.verdict.value if partition.verdict else "?",
            "-" if partition.committed is None else str(partition.committed),
            "?" if partition.end is None else str(partition.end),
            count(partition.lag),
            duration(partition.seconds),
        )
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row; a cell is shown as it is, see `as_text`."""
    table.add_row(*(as_text(cell) if isinstance(cell, str) else cell for cell in cells))


def as_text(text: str, style: str = "") -> Text:
    """Return a text as it is: a str would be read as rich's markup, and [eu] in a query's name would be missing."""
    return Text(plain(text), style=style)


def moment(at: float) -> str:
    """Return a moment (seconds since 1970) in the reader's time zone."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S}"


def _ago(seconds: float | None) -> str:
    return "?" if seconds is None else f"{duration(seconds)} ago"


def _verdicts(sample: LagSample) -> str:
    words = {query.verdict for query in sample.queries.values()}
    words.update(alarm for query in sample.queries.values() for alarm in query.alarms)
    return ", ".join(sorted(word for word in words if word)) or "?"

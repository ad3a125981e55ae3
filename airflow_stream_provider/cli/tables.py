"""The tables of `airflow streams`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from airflow_stream_provider.audit.check import Severity
from airflow_stream_provider.audit.report import AuditReport
from airflow_stream_provider.cli.status import StreamStatus
from airflow_stream_provider.hooks.compare import Comparison
from airflow_stream_provider.hooks.ledger import LedgerRow, kafka_of
from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLook
from airflow_stream_provider.lag.report import Ceilings, LagReport, QueryLag
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.lifecycle.texts import count, duration, plain
from airflow_stream_provider.monitoring.health import phase_words
from airflow_stream_provider.monitoring.life import LifeEvent, What
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.foreseen import SHOWN_DIGITS

PARTITIONS = 20
# The offsets of more partitions of a topic are not shown.
SHOWN_PARTITIONS = 4

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


def audit_view(stream: str, report: AuditReport) -> RenderableType:
    """Return the findings of an audit, the worst first, each with why it matters and how to change it."""
    parts: list[RenderableType] = [as_text(f"{stream}: {report}", "bold")]
    for finding in report.findings:
        colour = "red" if finding.severity >= Severity.HIGH else "yellow" if finding.severity >= Severity.LOW else ""
        parts.append(as_text(str(finding), "" if finding.waived else colour))
        parts += [] if finding.waived else [as_text(f"  Why: {finding.why}")]
    parts += [as_text(f"This waiver has expired and counts as none: {waiver}.", "yellow") for waiver in report.expired]
    return Group(*parts)


def status_table(lines: Sequence[StreamStatus], now: float) -> RenderableType:
    """Return one row for each stream, and below the table what is wanted, and the problems.

    :param now: seconds since 1970.
    """
    table = Table("stream", "phase", "sign of life", "version", "behind", "oldest", "verdict, alarms", "measured")
    below = []
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
        if line.wanted:
            below.append(as_text(f"{line.stream}: {line.wanted}"))
        if line.problem:
            below.append(as_text(f"{line.stream}: {line.problem}", "yellow"))
    return Group(table, *below)


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


def ledger_view(stream: str, rows: Sequence[LedgerRow], said: Mapping[str, str], now: float) -> RenderableType:
    """Return one row for each query of a ledger, how its checkpoint differs, and its last batches.

    :param said: by query, the difference; empty: there is none.
    :param now: seconds since 1970.
    """
    table = Table(
        "query", "epoch", "writer", "claimed", "batch", "written", "until", title=as_text(stream, "table.title")
    )
    parts: list[RenderableType] = [table]
    for row in rows:
        add_row(
            table,
            row.query,
            str(row.epoch),
            row.holder,
            moment(row.claimed_at),
            str(row.batch_id) if row.query_id else "-",
            _ago(None if row.written_at is None else now - row.written_at),
            _offsets(row.offsets),
        )
        if row.query in said:
            parts.append(as_text(f"{row.query}: {said[row.query] or 'the checkpoint has committed the same.'}"))
    for row in rows:
        batches = Table(
            "at", "batch", "epoch", "writer", "rows", "from", "until", title=as_text(row.query, "table.title")
        )
        for batch in row.history:
            begins, ends = _offsets(batch.begins), _offsets(batch.ends)
            numbers = str(batch.batch_id), str(batch.epoch)
            add_row(batches, moment(batch.written_at), *numbers, batch.holder, count(batch.rows), begins, ends)
        parts.append(batches)
    return Group(*parts)


def _offsets(sources: Sequence[Any]) -> str:
    """Return where batches begin or end: for Kafka by topic, the first partitions."""
    shown = []
    for source in sources:
        found = kafka_of([source])
        if not found:
            shown.append(f"{json.dumps(source):.60}")
        for topic, parts in found.items():
            some = ", ".join(f"{partition}: {offset}" for partition, offset in sorted(parts.items())[:SHOWN_PARTITIONS])
            shown.append(f"{topic} {some}{', ...' if len(parts) > SHOWN_PARTITIONS else ''}")
    return "; ".join(shown) or "-"


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


BAD_EVENTS = (What.FAILED, What.REFUSED, What.FENCED, What.ILLEGAL)
ODD_EVENTS = (What.ABORTED, What.TAKEN_BACK, What.RELEASED, What.FENCING, What.ROLLED_BACK, What.UNKNOWN)
_EVENT_COLOURS = {**dict.fromkeys(BAD_EVENTS, "red"), **dict.fromkeys(ODD_EVENTS, "yellow")}


def life_table(stream: str, events: Sequence[LifeEvent]) -> RenderableType:
    """Return one row for each event, oldest first."""
    # Folded, as people copy ids of drivers and runs from here.
    columns = [Column(name, overflow="fold") for name in ("at", "what", "release", "driver", "who", "why")]
    table = Table(*columns, Column("gap", max_width=18), title=as_text(stream, "table.title"))
    for event in events:
        add_row(
            table,
            "?" if event.at is None else moment(event.at),
            as_text(event.what.words, _EVENT_COLOURS.get(event.what, "")),
            event.version or "-",
            event.incarnation or event.deployment or "-",
            who(event),
            why(event),
            gap(event),
        )
    return table


def who(event: LifeEvent) -> str:
    """Return the author; a task or a command has two lines."""
    kind, _, name = event.by.partition(":")
    if kind == "driver":
        return "the driver" if name == event.incarnation else name
    if kind == "person":
        person, _, rest = name.partition("/")
        return f"{person}\nairflow streams {rest.rpartition('/')[2].partition('.')[0]}" if rest else name
    if kind != "airflow":
        return event.by or "?"
    dag, _, rest = name.partition("/")
    run, _, task = rest.rpartition("/")
    return f"{dag}/{task}\n{run}" if run else name


def why(event: LifeEvent) -> str:
    """Return the reason, with the person who confirmed it, or the record of the wish that is replaced."""
    person, job = event.evidence.get("person"), event.evidence.get("job")
    more = f" (confirmed by {person})" if person else f" (it was {job})" if job else ""
    replaces = f" (replaces record {event.replaces})" if event.replaces else ""
    return f"{event.reason}{more}{replaces}".strip()


def gap(event: LifeEvent) -> str:
    """Return the gap of each query, or the time without a holder; empty where the holder did not change or it is not
    known.
    """
    if event.gap_seconds:
        return ", ".join(f"{query} {brief(seconds)}" for query, seconds in event.gap_seconds.items())
    return "" if event.free_seconds is None else f"nobody for {brief(event.free_seconds)}"


def brief(seconds: float) -> str:
    """Return a short time, such as a gap, with its tenths of a second."""
    return duration(seconds) if seconds >= 60 else f"{seconds:.1f} s"


_RUNS = (StreamPhase.RUNNING, StreamPhase.HANDING_OVER, StreamPhase.STOPPING)


def comparison_view(found: Comparison) -> RenderableType:
    """Return what is compared, one row for each difference, and what an upgrade would do."""
    parts: list[RenderableType] = [as_text(_compared(found), "bold")]
    if found.found:
        columns = (Column(name, overflow="fold") for name in ("field", "running", "YAML"))
        table = Table(*columns)
        for each in found.found:
            add_row(table, each.field, _value(each.field, each.running), _value(each.field, each.yaml))
        parts.append(table)
    if found.problem:
        parts.append(as_text(f"Its files cannot be compared one by one: {found.problem}", "yellow"))
    return Group(*parts, as_text(_upgrade(found)))


def _compared(found: Comparison) -> str:
    held = found.running
    if held is None:
        return f"{found.stream}: no release has ever run."
    how = "runs" if found.phase in _RUNS else f"ran last; the stream is {found.phase.value} now"
    return f"{found.stream}: release {held.release.version} ({held.id}) {how}."


def _upgrade(found: Comparison) -> str:
    if found.new_release:
        return f"An upgrade would deploy release {found.wanted.version} ({found.wanted.hash[:SHOWN_DIGITS]})."
    if found.found:
        return "An upgrade would deploy the same release, with what the YAML says now."
    return "The YAML says what runs: an upgrade would change nothing."


def _value(field: str, value: Any) -> str:
    if value is None:
        return "-"
    if field == "release" or field.startswith("files."):
        return str(value)[:SHOWN_DIGITS]
    return shlex.join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)

"""The table of `airflow streams history`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Column, Table

from airflow_stream_provider.cli.tables import add_row, as_text, moment
from airflow_stream_provider.lag.formatting import duration
from airflow_stream_provider.monitoring.life_event import LifeEvent, What

_BAD = (What.FAILED, What.REFUSED, What.FENCED, What.ILLEGAL)
_ODD = (What.ABORTED, What.TAKEN_BACK, What.RELEASED, What.FENCING, What.ROLLED_BACK, What.UNKNOWN)
_COLOURS = {**dict.fromkeys(_BAD, "red"), **dict.fromkeys(_ODD, "yellow")}


def life_table(stream: str, events: Sequence[LifeEvent]) -> RenderableType:
    """Return one row for each event, oldest first."""
    # Folded, as people copy ids of drivers and runs from here.
    columns = [Column(name, overflow="fold") for name in ("at", "what", "release", "driver", "who", "why")]
    table = Table(*columns, Column("gap", max_width=18), title=as_text(stream, "table.title"))
    for event in events:
        add_row(
            table,
            "?" if event.at is None else moment(event.at),
            as_text(event.what.words, _COLOURS.get(event.what, "")),
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
    """Return the reason, with the person who confirmed it."""
    person, job = event.evidence.get("person"), event.evidence.get("job")
    more = f" (confirmed by {person})" if person else f" (it was {job})" if job else ""
    return f"{event.reason}{more}".strip()


def gap(event: LifeEvent) -> str:
    """Return the gap of each query, or the time without a holder; empty where the holder did not change or it is not
    known.
    """
    if event.gap_seconds:
        return ", ".join(f"{query} {_seconds(seconds)}" for query, seconds in event.gap_seconds.items())
    return "" if event.free_seconds is None else f"nobody for {_seconds(event.free_seconds)}"


def _seconds(seconds: float) -> str:
    return duration(seconds) if seconds >= 60 else f"{seconds:.1f} s"

"""What the docs take from the code, between marks; run as a module to write it there.

Run `python -m tests.support.reference`.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from airflow.cli.cli_config import ActionCommand, GroupCommand
from pydantic import BaseModel

from airflow_stream_provider.cli.definition import get_streams_cli_commands
from airflow_stream_provider.clusters.spark_defaults import DEFAULTS
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.monitoring import metrics
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.stream import LagSpec, NotifySpec, StreamSpec, UpgradeSpec, WatchSpec
from tests.support import audit_table, state_tables
from tests.support.offered import own_parameters, sections

DOCS = Path(__file__).parents[2] / "docs"
MARKS = re.compile(r"(<!-- begin ([\w ]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
UNITS = {"h": 3600, "m": 60, "s": 1}
SHARED = {"name", "--reason", "--dry-run", "--yes", "--json", "--folder", "--verbose"}
# What the page says once, above the classes.
ABOVE = {"stream", "group", "kafka", "ledger", "deferrable", "poke_interval", "to"}
PARTS: dict[str, type[BaseModel]] = {
    "": StreamSpec,
    "upgrade.": UpgradeSpec,
    "lag.": LagSpec,
    "watch.": WatchSpec,
    "notify.": NotifySpec,
}


def told(source: object) -> dict[str, str]:
    """What a docstring says of each parameter; `""` is its first sentence, `XCom` the names there."""
    text = re.sub(r"``(.*?)``", r"`\1`", inspect.getdoc(source) or "")
    found = {"": _line(re.split(r"(?<=\.)\s|\n\n", text)[0])}
    for name, says in re.findall(r"^:param (\w+): (.*?)(?=^:|^\S|\n\n|\Z)", text, re.M | re.S):
        found[name] = _line(says)
    xcom = re.search(r"XCom[:,] ?(.*?)(?=\n\n|\Z)", text, re.S)
    named = dict.fromkeys(re.findall(r"`\w+`", xcom[1])) if xcom else {}
    return found | {"XCom": ", ".join(named)}


def _line(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    """The first sentence, without what follows a semicolon or explains: `help()` has the rest, but for a default."""
    first = re.split(r"(?<=[^.][.]) (?=[A-Z])|; (?!default)", text)[0].removesuffix(".")
    what, mark, default = first.partition("; default")
    return re.split(r", so that |, unless |(?<=JSON): ", what)[0] + mark + default


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def fields() -> str:
    """The fields of a stream's YAML."""
    return _table(("field", "default", "means"), _fields())


def _fields() -> Iterator[tuple[str, ...]]:
    for prefix, part in PARTS.items():
        says = told(Policy) | told(part)
        for name, field in part.model_fields.items():
            if not isinstance(field.default, BaseModel):  # a part, with rows of its own
                yield f"`{prefix}{name}`", _default(field), says[name]


def _default(field: Any) -> str:
    if field.is_required():
        return "**needed**"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, float):
        return next(f"{value / size:g}{unit}" for unit, size in UNITS.items() if value >= size and value % size == 0)
    if isinstance(value, tuple):
        return ", ".join(str(each) for each in value)
    return "" if value is None or value == {} else str(value).lower()


def commands() -> str:
    """The commands, with what they take beyond what all that act do."""
    (group,) = get_streams_cli_commands()
    assert isinstance(group, GroupCommand)
    found = [each for each in group.subcommands if isinstance(each, ActionCommand)]
    return _table(("command", "takes"), ((f"`{each.name}`", _takes(each)) for each in found))


def _takes(command: ActionCommand) -> str:
    known = SHARED if command.name in [each.value for each in Operation] else {"--verbose", "--folder", "--json"}
    options = (_option(arg) for arg in command.args)
    return " ".join(f"`{each}`" for each in options if each.partition(" ")[0] not in known)


def _option(arg: Any) -> str:
    names = [name for name in arg.flags if name.startswith("--") or not name.startswith("-")]
    value = arg.kwargs.get("metavar") if names[0].startswith("--") else None
    return f"{names[0]}{f' {value}' if value else ''}"


def gauges() -> str:
    """The gauges, as the source of `METRICS` has them."""
    lines = re.findall(r'^    "(stream\.\S+)": .*  # (.+)$', inspect.getsource(metrics), re.M)
    return _table(("gauge", "is"), ((f"`{name}{{{','.join(metrics.METRICS[name])}}}`", says) for name, says in lines))


def checks() -> str:
    """The checks of Kafka."""
    return audit_table.of_kafka()


def checks_of_spark() -> str:
    """The checks of Spark."""
    return audit_table.of_spark()


def spark_defaults() -> str:
    """The Spark conf that a job is given where its own says nothing."""
    rows = ((f"`{each.name}`", f"`{each.value}`", ", ".join(each.when), each.why) for each in DEFAULTS)
    return _table(("conf", "value", "where", "why"), rows)


def operators() -> str:
    """A section for each class that a DAG file uses; what is said of a parameter, once."""
    said: dict[tuple[str, str], str] = {}
    return "\n".join("\n".join(_section(name, offer, made_by, said)) for name, offer, made_by in sections())


def _section(name: str, offer: type, made_by: Any, said: dict[tuple[str, str], str]) -> Iterator[str]:
    says: dict[str, str] = {}
    for each in (*reversed(offer.__mro__), made_by):
        if each.__module__.startswith("airflow_stream_provider"):
            says |= {key: text for key, text in told(each).items() if key not in ("", "XCom")}
    own = told(offer)
    yield f"### {name}\n"
    yield f"`{offer.__module__.partition('.')[2]}`. {own['']}\n"
    takes, templated = own_parameters(name, offer, made_by)
    if takes.release:
        yield "- Parameters: a release."
    known = [each for each in takes.names if each in ABOVE or (each, says.get(each, "")) in said]
    names = {each: f"`{each}`{'†' if each in templated else ''}" for each in takes.names}
    for each in takes.names:
        if each not in known:
            said[each, says[each]] = name
            yield f"- {names[each]}: {_short(re.sub(r' ?[(](both )?templated.*?[)]', '', says[each]))}"
    if known:
        yield f"- As above: {', '.join(names[each] for each in known)}"
    if own.get("XCom"):
        yield f"- XCom: {own['XCom']}"
    yield ""


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *(tuple(_cell(each) for each in row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


GENERATED: dict[str, Callable[[], str]] = {
    "fields": fields,
    "commands": commands,
    "metrics": gauges,
    "checks": checks,
    "checks of spark": checks_of_spark,
    "operators": operators,
    "spark defaults": spark_defaults,
    "state tables": state_tables.tables,
}


def page(text: str) -> str:
    """Return the text of a page with what is generated as it should be."""
    return MARKS.sub(lambda found: f"{found[1]}{GENERATED[found[2]]()}{found[3]}", text)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path in sorted(DOCS.rglob("*.md")):
        path.write_text(page(path.read_text()))

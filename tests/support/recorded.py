"""The recorded files of format 1, what they mean, and how what is written today may differ from them: not at all."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record

FIXTURES = Path(__file__).parents[1] / "fixtures"
FORMAT_1 = FIXTURES / "format-1"
# Fields that were added later, and whoever reads format 1 is right without: by file, path and types, as "text".
ADDED: dict[str, dict[str, str]] = json.loads((FIXTURES / "added.json").read_text())
# Where keys of an object are names and not fields, in records.
RECORD_MAPS = frozenset(
    {
        ".ends",
        ".evidence",
        ".queries[].conf",
        ".queries[].sink_options",
        ".queries[].source_options[]",
        ".rehearsal.queries",
        ".release.conf",
        ".release.environment",
    }
)
# The same in heartbeats; what a source has committed is Spark's own, and of Kafka by topic and partition.
HEARTBEAT_MAPS = frozenset(
    {
        ".queries[].committed[]",
        ".queries[].committed[].*",
        ".queries[].commits[].offsets",
        ".queries[].commits[].offsets.*",
        ".rehearsal.queries",
    }
)
# A record that was made for readers only: of a newer version, forged, or with fields that nobody writes.
_READ_ONLY = ("airflow:newer", "somebody")
WHAT_TO_DO = (
    "Formats are frozen: drivers of months ago read this. If they are right without it, add it to "
    "tests/fixtures/added.json; else undo it, or make it a new kind or a new name. See 'What may change' in "
    "docs/compatibility.md."
)


def text(name: str) -> bytes:
    """Return a recorded file."""
    return (FORMAT_1 / name).read_bytes()


def lines(name: str) -> list[bytes]:
    """Return the lines of a recorded file."""
    return text(name).splitlines()


def value(name: str) -> Any:
    """Return what a recorded file of JSON says."""
    return json.loads(text(name))


def written_records() -> list[dict[str, Any]]:
    """Return the recorded records that a version writes."""
    found = [json.loads(line) for line in lines("log.jsonl")]
    return [each for each in found if each["by"] not in _READ_ONLY and "of_next_year" not in each]


def without_added(name: str, written: Any) -> Any:
    """Return what is written today, as JSON, without the fields that were added to a file's form."""
    found = json.loads(json.dumps(written))
    for path, types in ADDED.get(name, {}).items():
        _take_out(found, path.split("/"), types)
    return found


def _take_out(found: Any, path: Sequence[str], types: str) -> None:
    step, *rest = path
    if step == "*":
        for each in found.values() if isinstance(found, dict) else found or ():
            _take_out(each, rest, types)
    elif isinstance(found, dict) and step in found:
        if rest:
            _take_out(found[step], rest, types)
        else:
            kind = _kind(found.pop(step))
            assert kind in types.split(" or "), f"{step} is written as {kind} and was added as {types}"


def plain(found: Any) -> Any:
    """Return a value of this package as JSON has it."""
    if isinstance(found, Record):
        names = ("kind", "by", "at", "nonce", "seq", "previous")
        return {name: getattr(found, name) for name in names}
    if isinstance(found, Enum):
        return found.value
    if is_dataclass(found):
        return {field.name: plain(getattr(found, field.name)) for field in fields(found)}
    if isinstance(found, Mapping):
        return {plain(key): plain(each) for key, each in found.items()}
    if isinstance(found, (list, tuple)):
        return [plain(each) for each in found]
    return found


def check_meaning(expected: Any, found: Any, at: str = "") -> None:
    """Check that something still means what it meant; what a later version also tells of it is left out."""
    found = plain(found)
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = sorted(set(expected) - set(found))
        assert not missing, f"{at}: {missing} is not read any more. {WHAT_TO_DO}"
        for name, each in expected.items():
            check_meaning(each, found[name], f"{at}.{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            check_meaning(one, other, f"{at}[{number}]")
    else:
        same = expected == found and type(expected) is type(found)
        assert same, f"{at} meant {expected!r} and is read as {found!r}. {WHAT_TO_DO}"


def check_written(recorded: Sequence[Any], written: Any, maps: Collection[str] = ()) -> None:
    """Check that a value, as JSON, has the fields and types that were recorded, and no others.

    :param recorded: values of the same form. A field that all of them have must be there.
    :param maps: paths of objects whose keys are names.
    """
    found = list(_differences(recorded, json.loads(json.dumps(written)), maps, ""))
    assert not found, f"{'; '.join(found)}. {WHAT_TO_DO} Written: {written!r:.300}"


def check_written_record(record: Record, made_up: Collection[str] = ()) -> None:
    """Check that a record has the fields and types that are recorded of its kind.

    :param made_up: fields that a test has made up, which are left out.
    """

    def own(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: each for name, each in fields.items() if name not in made_up}

    known = [own(each) for each in written_records() if each["kind"] == record.kind]
    assert known, f"a record of kind {record.kind} is written, and none was recorded. {WHAT_TO_DO}"
    check_written(known, without_added("log.jsonl", own(json.loads(record.to_json()))), RECORD_MAPS)


def check_written_heartbeat(beat: Heartbeat) -> None:
    """Check that a heartbeat has the fields and types that are recorded."""
    known = [json.loads(line) for line in lines("heartbeats.jsonl")]
    check_written(known, without_added("heartbeats.jsonl", json.loads(beat.to_json())), HEARTBEAT_MAPS)


def _differences(recorded: Sequence[Any], written: Any, maps: Collection[str], at: str) -> Iterator[str]:
    kinds = {_kind(each) for each in recorded}
    kind = _kind(written)
    if kind not in kinds and not (kind == "whole number" and "number" in kinds):
        yield f"{at or 'it'} is written as {kind} and was recorded as {' or '.join(sorted(kinds)) or 'nothing'}"
        return
    if isinstance(written, list):
        inner = [item for each in recorded if isinstance(each, list) for item in each]
        for item in written:
            yield from _differences(inner, item, maps, f"{at}[]")
    if not isinstance(written, dict):
        return
    objects = [each for each in recorded if isinstance(each, dict)]
    if at in maps:
        inner = [item for each in objects for item in each.values()]
        for item in written.values():
            yield from _differences(inner, item, maps, f"{at}.*")
        return
    for name in sorted(set.intersection(*(set(each) for each in objects)) - set(written)):
        yield f"{at}.{name} is not written any more"
    for name, item in written.items():
        yield from _differences([each[name] for each in objects if name in each], item, maps, f"{at}.{name}")


def _kind(found: Any) -> str:
    names = {type(None): "null", bool: "truth value", int: "whole number", float: "number", str: "text", list: "list"}
    return names.get(type(found), "object")

"""The types of a record's fields, by kind. A field of another type would break those who read the state much later."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.release import Release

Check = Callable[[Any], bool]


def sound_fields(record: Record) -> bool:
    """Whether every field that this version reads has its type; missing ones and None are left to the other rules."""
    checks = _FIELDS.get(record.kind, {})
    return all(check(record[name]) for name, check in checks.items() if record.get(name) is not None)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(_text(each) for each in value)


def _release(value: Any) -> bool:
    settings = [value.get(name, {}) for name in ("conf", "environment")]
    lists = (value.get(name, ()) for name in ("arguments", "py_files"))
    single = (value.get(name, "") for name in ("hash", "application"))
    typed = all(_texts(each) for each in lists) and all(_text(each) for each in single)
    typed = typed and all(_mapping(each) and _texts([*each, *each.values()]) for each in settings)
    return typed and bool(Release.from_json(value).hash)


def _policy(value: Any) -> bool:
    limits = Policy().to_json().items()
    return _mapping(value) and all(_like(default, value[name]) for name, default in limits if name in value)


def _like(default: Any, value: Any) -> bool:
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, str):
        return _text(value)
    if isinstance(default, Mapping):
        return _mapping(value)
    return _texts(value) if isinstance(default, list) else _number(value) and value >= 0


def _queries(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        _text(query["name"]) and _text(query.get("checkpoint", "")) and _texts(query.get("sources") or ())
        for query in value
    )


_TEXTS = ("deployment", "incarnation", "request", "to", "reason", "submission", "cluster", "boundary", "error")
_FIELDS: dict[str, dict[str, Check]] = {
    kind: {**dict.fromkeys(_TEXTS, _text), **more}
    for kind, more in {
        Kind.DECLARED: {"release": _release, "policy": _policy, "family": _text, "again": _text},
        Kind.SUBMITTED: {},
        Kind.STANDBY: {"queries": _queries, "rehearsal": _mapping},
        Kind.REQUESTED: {"expires": _number, "wish": _text},
        Kind.READY: {},
        Kind.RELEASED: {"ends": _mapping},
        Kind.ACQUIRED: {"epoch": _count},
        Kind.FENCING: {},
        Kind.FENCED: {},
        Kind.ABORTED: {},
        Kind.FAILED: {"queries": _queries, "rehearsal": _mapping},
        Kind.FINISHED: {},
        Kind.RETIRED: {},
        Kind.WANTED: {
            **dict.fromkeys(("wish", "goal", "family", "approved", "job", "confirmed_by"), _text),
            **dict.fromkeys(("alone", "back", "redeployed", "approval", "adopts"), _flag),
            "max_seconds": _number,
            "rewind": _mapping,
            "release": _release,
            "policy": _policy,
        },
        Kind.ENDING: {"expires": _number, "job": _text},
    }.items()
}

"""Read the stored form of a dataclass: one JSON object, whose writer may be older, newer, or have left it damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from airflow_stream_provider.lifecycle.texts import plain_within

# A number beyond this, NaN or Infinity can be read, but hardly be calculated with: an int may be too large for a float.
_LIMIT = 2**63
_KINDS: Mapping[str, Any] = {"int": int, "float": (int, float), "str": str, "tuple": (list, tuple), "Mapping": dict}


def parse_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object in these bytes; its texts are made plain (`texts.plain`).

    :raises ValueError: there is none: not JSON, not UTF-8, nested too deeply, or something else than an object.
    """
    try:
        body = plain_within(json.loads(data))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(body, dict):
        raise ValueError(f"it is no JSON object but {type(body).__name__}")
    return body


def known_fields(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return those fields of a JSON object that this version of a dataclass knows; the others are ignored.

    :raises ValueError: `data` is no JSON object, or a value cannot be what the dataclass's annotation says.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{data!r:.50} is no {cls.__name__}")
    known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
    for field in fields(cls):
        # With `from __future__ import annotations`, a field's type is its text.
        if field.name in known and not _fits(str(field.type), known[field.name]):
            raise ValueError(f"{field.name} is {known[field.name]!r:.50} and not {field.type}")
    return known


def _fits(annotation: str, value: Any) -> bool:
    if value is None:
        return "None" in annotation
    name = annotation.partition("[")[0].partition(" ")[0]
    fits = isinstance(value, _KINDS.get(name, object))
    if name in ("int", "float"):
        return fits and not isinstance(value, bool) and abs(value) < _LIMIT
    return fits

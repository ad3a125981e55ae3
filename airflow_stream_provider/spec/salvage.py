"""What can still be read of a stream whose YAML file cannot be used."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import STREAM
from airflow_stream_provider.spec.plain_yaml import read_text
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.yaml_file import YamlFile

# What a watch needs. What the stream runs is in the control log.
WATCHED_FIELDS = ("name", "control", "cluster", "kafka", "lag", "watch", "notify", "storage", "storage_connection")
PLACEHOLDERS = {"application": "none.py", "version": "none"}


def salvage(path: Path) -> StreamSpec | None:
    """Return a stream to watch, made of those fields of its YAML that are right; None when it has no `control`.

    Without a right `name` it is that of the file. Without a right `cluster` it is empty. All other fields have their
    defaults; nothing can be deployed with it.
    """
    fields: dict[str, Any] = {"name": path.stem} if STREAM.fullmatch(path.stem) else {}
    try:
        for block in _blocks(read_text(path)):
            fields.update(_read(path, block))
    except SpecError:
        return None
    while True:
        try:
            spec = StreamSpec.model_validate({"cluster": "none", **fields, **PLACEHOLDERS})
        except ValidationError as error:
            wrong = {str(each["loc"][0]) for each in error.errors(include_input=False, include_url=False)} & set(fields)
            if not wrong:
                return None
            fields = {name: value for name, value in fields.items() if name not in wrong}
            if "name" in wrong and STREAM.fullmatch(path.stem):
                fields["name"] = path.stem
        else:
            spec._source = path.absolute()
            return spec if "cluster" in fields else spec.model_copy(update={"cluster": ""})


def salvage_name(path: Path) -> str:
    """Return a name for the DAGs of a file that cannot be used: its stream's, as far as it can be read, or the file's.

    It is fit for a DAG id; it need not be a stream's name.
    """
    with contextlib.suppress(SpecError):
        for block in _blocks(read_text(path)):
            name = _read(path, block).get("name")
            if isinstance(name, str) and STREAM.fullmatch(name):
                return name
    return re.sub(r"[^A-Za-z0-9_.-]", "-", path.stem)[:100]


def _blocks(text: str) -> Iterator[str]:
    """Yield each top-level field with the lines that belong to it, so that a fault in one leaves the others."""
    yield from re.findall(r"^[a-z_]+:.*\n?(?:(?:[ \t#\-\]}].*)?\n)*", text + "\n", flags=re.MULTILINE)


def _read(path: Path, block: str) -> dict[str, Any]:
    try:
        found = YamlFile.parse(path, block).fields
    except SpecError:
        return {}
    return {name: value for name, value in found.items() if name in WATCHED_FIELDS}

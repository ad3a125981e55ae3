"""Read the valid part of a YAML file that cannot be used."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import STREAM
from airflow_stream_provider.spec.plain_yaml import read_text
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.yaml_file import YamlFile

# The settings that a watch needs. The stream's release is in the control log.
WATCHED_FIELDS = ("name", "control", "cluster", "kafka", "lag", "watch", "notify", "storage", "storage_connection")
# For fields that a stream must have, and that cannot be read.
PLACEHOLDERS = {"application": "none.py", "version": "none"}
_NOTHING = {"name": "none", "cluster": "none", "control": "file:///none", **PLACEHOLDERS}


def salvage(path: Path, problem: str) -> StreamSpec | None:
    """Return a stream made of those fields of its YAML that are right; None when it has no `control`.

    Without a right `name` it is that of the file. Without a right `cluster` it is empty. All other fields have their
    defaults; but where it cannot be read whether an upgrade needs a person's approval, it does.

    :param problem: why the YAML cannot be used. With it, nothing can be deployed.
    """
    fields: dict[str, Any] = {"name": path.stem} if STREAM.fullmatch(path.stem) else {}
    try:
        text = read_text(path)
    except SpecError:
        return None
    for block in _blocks(text):
        fields.update(_read(path, block))
    while True:
        # A control log in Kafka needs a storage beside it; to go on with what was published, none need be known.
        storage = {"storage": "file:///none"} if "storage" not in fields else {}
        try:
            spec = StreamSpec.model_validate({"cluster": "none", **PLACEHOLDERS, **storage, **fields})
        except ValidationError as error:
            left = _without(fields, error)
            if "name" not in left and "name" in fields and STREAM.fullmatch(path.stem):
                left["name"] = path.stem
            if left == fields:
                return None
            fields = left
        else:
            return _known(spec, fields, text, path, problem)


def nothing_known(path: Path, name: str, problem: str) -> StreamSpec:
    """Return a stream of which nothing can be read, for the DAGs of its file. It has no `control`: its tasks fail.

    :param name: by which the DAGs of the file go.
    """
    spec = StreamSpec.model_validate(_NOTHING)
    return _known(spec, {}, "approval", path, problem).model_copy(update={"name": name, "control": ""})


def _known(spec: StreamSpec, fields: Mapping[str, Any], text: str, path: Path, problem: str) -> StreamSpec:
    """Return the stream with what is not among its fields as empty as it is."""
    spec._source, spec._problem = path.absolute(), problem
    update: dict[str, Any] = {}
    if "cluster" not in fields:
        update["cluster"] = ""
    if "storage" not in fields:
        update["storage"] = None
    if "approval" not in fields.get("upgrade", {}) and re.search(r"\bapproval\b", text):
        # Else an upgrade that has to wait for an answer would go on.
        update["upgrade"] = spec.upgrade.model_copy(update={"approval": True})
    return spec.model_copy(update=update)


def _without(fields: Mapping[str, Any], error: ValidationError) -> dict[str, Any]:
    """Return the fields without those that are wrong; of `upgrade` only what is wrong in it."""
    left = dict(fields)
    for each in error.errors(include_input=False, include_url=False):
        # Where fields do not fit each other, none is named.
        unnamed = "storage_connection" if "storage_connection" in left else "storage"
        name, *parts = [str(part) for part in each["loc"] or (unnamed,)]
        inner = left.get(name) if name == "upgrade" and parts else None
        if isinstance(inner, dict) and parts[0] in inner:
            left[name] = {key: value for key, value in inner.items() if key != parts[0]}
        else:
            left.pop(name, None)
    return left


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
    return {name: value for name, value in found.items() if name in StreamSpec.model_fields}

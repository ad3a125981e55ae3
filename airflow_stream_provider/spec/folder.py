"""A folder of YAML files: which stream each describes, and by which name its DAGs go."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import STREAM
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.spec.yaml_file import YamlFile, read_text

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
        fields.update(_read_block(path, block))
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
            name = _read_block(path, block).get("name")
            if isinstance(name, str) and STREAM.fullmatch(name):
                return name
    return re.sub(r"[^A-Za-z0-9_.-]", "-", path.stem)[:100]


def _blocks(text: str) -> Iterator[str]:
    """Yield each top-level field with the lines that belong to it, so that a fault in one leaves the others."""
    yield from re.findall(r"^[a-z_]+:.*\n?(?:(?:[ \t#\-\]}].*)?\n)*", text + "\n", flags=re.MULTILINE)


def _read_block(path: Path, block: str) -> dict[str, Any]:
    try:
        found = YamlFile.parse(path, block).fields
    except SpecError:
        return {}
    return {name: value for name, value in found.items() if name in StreamSpec.model_fields}


_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True)
class StreamFile:
    """One YAML file: the stream that it describes, or why it cannot be used.

    :param name: the name by which its DAGs go: the stream's; of a file that cannot be used, as far as it can be read.
    """

    path: Path
    name: str
    spec: StreamSpec | None = None
    error: SpecError | None = None

    @property
    def known(self) -> StreamSpec:
        """The stream; of a file that cannot be used, as far as it can be read, with the error as its `problem`.

        Nothing is known of one with another name than its DAGs: its stream is described by another file.
        """
        if self.spec is not None:
            return self.spec
        problem = str(self.error)
        found = salvage(self.path, problem)
        return found if found is not None and found.name == self.name else nothing_known(self.path, self.name, problem)


def read_folder(folder: str | Path) -> list[StreamFile]:
    """Read every ``*.yaml`` and ``*.yml`` of a folder, by file name; but none whose name begins with a dot.

    If two files describe the same stream, the one that is named like it counts, or else the first by name; the other
    one cannot be used. No two files have the same `name`.

    :raises SpecError: the folder is not there.
    """
    read = [_read(path) for path in _paths(Path(folder))]
    owners: dict[str, StreamFile] = {}
    for file in sorted((f for f in read if f.spec), key=lambda f: (f.path.stem != f.name, f.path)):
        owners.setdefault(file.name, file)
    named = [file if owners.get(file.name) is file else _refused(file, owners.get(file.name)) for file in read]
    taken = set(owners)
    for number, file in enumerate(named):
        if file.spec is None:
            named[number] = file = replace(file, name=_free_name(file, taken))
            taken.add(file.name)
    return named


def find_file(folder: str | Path, name: str) -> StreamFile | None:
    """Return the file of `read_folder` that has this name, and read as few others as possible; None: there is none.

    One file is read where it is named like its stream. Else the others are searched for the name first.

    :raises SpecError: the folder is not there.
    """
    folder = Path(folder)
    if STREAM.fullmatch(name):
        for path in (folder / f"{name}{ending}" for ending in _ENDINGS):
            file = _read(path) if path.exists() else None
            if file is not None and file.spec is not None and file.name == name:
                return file
    mentioned = (_read(path) for path in _paths(folder) if _mentions(path, name))
    found = [file for file in mentioned if file.spec is not None and file.name == name]
    return found[0] if found else next((file for file in read_folder(folder) if file.name == name), None)


def load_specs(folder: str | Path) -> list[StreamSpec | SpecError]:
    """Return what `read_folder` found in each file: its stream, or why the file cannot be used.

    :raises SpecError: the folder is not there.
    """
    return [found for file in read_folder(folder) if (found := file.spec or file.error) is not None]


def _paths(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SpecError(
            f"There is no folder {folder}.",
            next_step="Give stream_dags() the folder of the YAML files, relative to the DAG file or absolute.",
            folder=str(folder),
        )
    found = (path for ending in _ENDINGS for path in folder.glob(f"*{ending}"))
    # Those that begin with a dot are what editors and copying programs leave for a moment.
    return sorted(path for path in found if not path.name.startswith("."))


def _read(path: Path) -> StreamFile:
    try:
        spec = load_spec(path)
    except SpecError as error:
        return StreamFile(path, salvage_name(path), error=error)
    return StreamFile(path, spec.name, spec)


def _refused(file: StreamFile, owner: StreamFile | None) -> StreamFile:
    """Return a file whose stream another one describes, as one that cannot be used; others as they are."""
    if file.spec is None or owner is None:
        return file
    try:
        error = YamlFile.read(file.path).error(
            ("name",),
            f"the stream {file.name!r} is described by {owner.path.name} already.",
            next_step="Rename one of the two, or delete one file.",
        )
    except SpecError as changed:  # meanwhile
        error = changed
    return StreamFile(file.path, file.name, error=error)


def _free_name(file: StreamFile, taken: set[str]) -> str:
    stem, whole = (re.sub(r"[^A-Za-z0-9_.-]", "-", part)[:100] for part in (file.path.stem, file.path.name))
    return next(name for name in _candidates(file.name, stem, whole) if name not in taken)


def _candidates(*names: str) -> Iterator[str]:
    yield from names
    number = 2
    while True:
        yield f"{names[-1]}-{number}"
        number += 1


def _mentions(path: Path, name: str) -> bool:
    try:
        return path.is_file() and name.encode() in path.read_bytes()
    except OSError:
        return False

"""A folder of YAML files: which stream each describes, and by which name its DAGs go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import STREAM
from airflow_stream_provider.spec.salvage import nothing_known, salvage, salvage_name
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.spec.yaml_file import YamlFile

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

"""A folder of YAML files: which stream each describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import STREAM
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.spec.yaml_file import YamlFile

_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True)
class StreamFile:
    """One YAML file: the stream that it describes, or why it cannot be used."""

    path: Path
    spec: StreamSpec | None = None
    error: SpecError | None = None


def read_folder(folder: str | Path) -> list[StreamFile]:
    """Read every ``*.yaml`` and ``*.yml`` of a folder, by file name; but none whose name begins with a dot.

    If two files describe the same stream, the one that is named like it counts, or else the first by name; the other
    one cannot be used.

    :raises SpecError: the folder is not there.
    """
    read = [_read(path) for path in _paths(Path(folder))]
    owners: dict[str, Path] = {}
    for spec, path in sorted(((f.spec, f.path) for f in read if f.spec), key=lambda f: (f[1].stem != f[0].name, f[1])):
        owners.setdefault(spec.name, path)
    return [_refused(file, owners) for file in read]


def find_spec(folder: str | Path, name: str) -> StreamSpec | None:
    """Return the stream of this name, and read as few files as possible; None: no file that can be used describes it.

    One file is read where it is named like its stream. Else the others are searched for the name first.

    :raises SpecError: the folder is not there.
    """
    folder = Path(folder)
    if not STREAM.fullmatch(name):
        return None
    named = (path for path in (folder / f"{name}{ending}" for ending in _ENDINGS) if path.exists())
    others = (path for path in _paths(folder) if _mentions(path, name))
    read = (_read(path).spec for path in (*named, *others))
    return next((spec for spec in read if spec is not None and spec.name == name), None)


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
        return StreamFile(path, error=error)
    return StreamFile(path, spec)


def _refused(file: StreamFile, owners: Mapping[str, Path]) -> StreamFile:
    """Return a file whose stream another one describes, as one that cannot be used; others as they are."""
    if file.spec is None or owners[file.spec.name] == file.path:
        return file
    try:
        error = YamlFile.read(file.path).error(
            ("name",),
            f"the stream {file.spec.name!r} is described by {owners[file.spec.name].name} already.",
            next_step="Rename one of the two, or delete one file.",
        )
    except SpecError as changed:  # meanwhile
        error = changed
    return StreamFile(file.path, error=error)


def _mentions(path: Path, name: str) -> bool:
    try:
        return path.is_file() and name.encode() in path.read_bytes()
    except OSError:
        return False

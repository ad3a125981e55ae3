"""Publish releases: immutable copies of the files that a deployment runs, stored beside the control log."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.release import Release

LAUNCHER = "launcher.py"
RUNTIME_ZIP = "airflow_stream_runtime.zip"
# The packages that are shipped to the driver; everything else here needs Airflow.
_SHIPPED = ("lifecycle", "control", "checkpoint", "runtime")


def publish(
    stream_folder: Path,
    *,
    version: str,
    application: Path,
    arguments: Sequence[str] = (),
    py_files: Sequence[Path] = (),
    conf: Mapping[str, str] | None = None,
) -> Release:
    """Copy a release's files into a folder named by their hash. The same contents give the same release.

    The zip of the runtime and launcher.py are part of the release.

    :param stream_folder: the stream's folder under the control URL.
    :raises SpecError: a file is missing, or two files have the same name.
    """
    sources = [application, *py_files]
    _check_sources(sources)
    files = {path.name: path.read_bytes() for path in sources}
    files[LAUNCHER] = (Path(__file__).parent.parent / "runtime" / LAUNCHER).read_bytes()
    files[RUNTIME_ZIP] = runtime_zip()
    settings = {
        "version": version,
        "application": application.name,
        "arguments": list(arguments),
        "py_files": [path.name for path in py_files],
        "conf": dict(conf or {}),
    }
    release = Release.from_json({**settings, "hash": _digest(settings, files)})
    _write(release.folder(stream_folder), files)
    return release


def verify(stream_folder: Path, release: Release) -> None:
    """Check that the files of a release are those that were published (rule 8 in docs/architecture.md).

    :raises StreamError: a file is missing or has changed.
    """
    folder = release.folder(stream_folder)
    names = [release.application, *release.py_files, LAUNCHER, RUNTIME_ZIP]
    settings = {k: v for k, v in release.to_json().items() if k != "hash"}
    try:
        found = _digest(settings, {name: (folder / name).read_bytes() for name in names})
    except FileNotFoundError as error:
        found = f"no file {Path(error.filename).name}"
    if found != release.hash:
        raise StreamError(
            f"The files of release {release.version} in {folder} have changed since they were published: "
            f"the hash was {release.hash}, found {found}.",
            next_step="Deploy the release again. Never edit files under releases/.",
            hash=release.hash,
        )


def _check_sources(sources: Sequence[Path]) -> None:
    names: set[str] = {LAUNCHER, RUNTIME_ZIP}
    for path in sources:
        if not path.is_file():
            raise SpecError(
                f"There is no file {path}.", next_step="Check `application` and `py_files`.", path=str(path)
            )
        if path.name in names:
            raise SpecError(
                f"Two files of the release are named {path.name}.", next_step="Rename one of them.", path=str(path)
            )
        names.add(path.name)


def _digest(settings: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    contents = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return hashlib.sha256(json.dumps([settings, contents], sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def runtime_zip() -> bytes:
    """Return the zip with the runtime for the driver. The same sources give the same bytes."""
    package = Path(__file__).parent.parent
    sources = [package / "__init__.py"] + [p for name in _SHIPPED for p in (package / name).rglob("*.py")]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(sources):
            # A fixed date, so that the same sources give the same bytes and hash.
            entry = zipfile.ZipInfo(f"{package.name}/{path.relative_to(package).as_posix()}", (1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    if folder.is_dir():
        return
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    temporary.mkdir(parents=True)
    for name, data in files.items():
        with open(temporary / name, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    # Another process may have published the same contents meanwhile; rename never replaces its folder.
    with contextlib.suppress(OSError):
        temporary.rename(folder)
    shutil.rmtree(temporary, ignore_errors=True)

"""Make releases, immutable copies of the files that a deployment runs; store one in a folder, and verify it there."""

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
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from airflow_stream_provider.control.disk import make_folder, open_file, sync_folder, unavailable, write_new
from airflow_stream_provider.lifecycle.errors import Damaged, SpecError, StreamError
from airflow_stream_provider.lifecycle.formats import FORMAT
from airflow_stream_provider.lifecycle.release import Release

LAUNCHER = "launcher.py"
RUNTIME_ZIP = "airflow_stream_runtime.zip"
LOG_SIZE = "spark.airflow.stream.driverLog.maxSize"
"""The setting of a driver that keeps its own log small: the size from which on a file is cut."""
# The packages that are shipped to the driver; everything else here needs Airflow.
_SHIPPED = ("lifecycle", "control", "checkpoint", "runtime", "sinks")
# Only the user that published a release may write in its folder, and no user in its files.
_FOLDER_MODE = 0o2750
_FILE_MODE = 0o440


def make_release(
    *,
    version: str,
    application: Path,
    arguments: Sequence[str] = (),
    py_files: Sequence[Path] = (),
    conf: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Release, dict[str, bytes]]:
    """Return a release and its files by name. The same contents give the same release; nothing is stored.

    The zip of the runtime and launcher.py are part of the release.

    :raises SpecError: a file is missing, two files have the same name, or a py-file has one that Spark cannot list.
    """
    _check_sources(application, py_files)
    files = {path.name: path.read_bytes() for path in (application, *py_files)}
    files[LAUNCHER] = (Path(__file__).parent.parent / "runtime" / LAUNCHER).read_bytes()
    files[RUNTIME_ZIP] = runtime_zip()
    settings = {
        "version": version,
        "application": application.name,
        "arguments": list(arguments),
        "py_files": [path.name for path in py_files],
        "conf": dict(conf or {}),
        "environment": dict(environment or {}),
    }
    digest = release_hash(settings, file_hashes(files))
    return Release.from_json({**settings, "hash": digest, "format": FORMAT}), files


def store(stream_folder: Path, release: Release, files: Mapping[str, bytes]) -> None:
    """Write a release's files into a folder named by their hash. The files are read-only afterwards.

    :param stream_folder: the stream's folder under the control URL; it exists.
    :raises StreamError: the release was published before, and its files have changed since.
    :raises ControlUnavailable: the stream's folder cannot be written now.
    """
    with unavailable(stream_folder):
        _write(release.folder(stream_folder), files)
    verify(release.folder(stream_folder), release)


def verify(folder: Path, release: Release) -> dict[str, str]:
    """Check that a folder holds the files of a release as they were published, and nothing else (rule 8).

    :param folder: the release's folder, or a copy of it.
    :return: the SHA-256 of each file, by its name.
    :raises StreamError: a file is missing, has changed, is no regular file, or does not belong there.
    :raises ControlUnavailable: the folder cannot be read now.
    """
    with unavailable(folder):
        found = set(os.listdir(folder)) if folder.is_dir() and not folder.is_symlink() else set()
        return check_files(release, folder, found, lambda name: _sha256_of(folder / name))


def check_files(
    release: Release, where: object, found: AbstractSet[str], hash_of: Callable[[str], str], *beside: str
) -> dict[str, str]:
    """Check that a place holds the files of a release as they were published, and nothing else.

    :param where: the place, for the message.
    :param found: the names that are there.
    :param hash_of: returns the SHA-256 of one of them; raises FileNotFoundError if it has gone since it was found, and
        Damaged if it is no file.
    :param beside: files that belong there, and are no part of the hash.
    :return: the SHA-256 of each file, by its name.
    :raises StreamError: a file is missing, has changed, or does not belong there.
    """
    names = {*file_names(release), *beside}
    problems = [f"{name} is missing" for name in sorted(names - found)]
    problems += [f"{name} does not belong there" for name in sorted(found - names)]
    contents: dict[str, str] = {}
    for name in () if problems else sorted(names):
        try:
            contents[name] = hash_of(name)
        except FileNotFoundError:
            problems.append(f"{name} is missing")
        except Damaged:
            problems.append(f"{name} is no regular file")
    digest = release_hash(release.settings(), {name: contents[name] for name in contents if name not in beside})
    if not problems and digest != release.hash:
        problems = [f"their hash is {digest} and was {release.hash}"]
    if problems:
        raise changed(release, where, problems)
    return contents


def file_names(release: Release) -> set[str]:
    """Return the names of the files of a release."""
    return {release.application, *release.py_files, LAUNCHER, RUNTIME_ZIP}


def changed(release: Release, where: object, problems: Sequence[str]) -> StreamError:
    """Return the error that says how the stored files of a release differ from those that were published."""
    return StreamError(
        f"The files of release {release.version} in {where} have changed since they were published: "
        f"{', '.join(problems)}.",
        next_step="Find out who changed them, move that folder away, and deploy the release again. Never edit "
        "files under releases/.",
        hash=release.hash,
    )


def _check_sources(application: Path, py_files: Sequence[Path]) -> None:
    names: set[str] = {LAUNCHER, RUNTIME_ZIP}
    for path in (application, *py_files):
        if not path.is_file():
            raise SpecError(
                f"There is no file {path}.", next_step="Check `application` and `py_files`.", path=str(path)
            )
        if path.name in names:
            raise SpecError(
                f"Two files of the release are named {path.name}.", next_step="Rename one of them.", path=str(path)
            )
        if "," in path.name and path in py_files:
            raise SpecError(
                f"{path} has a comma in its name, and Spark's lists of files (--py-files) are separated by commas: the "
                "driver could not import it.",
                next_step="Rename it.",
                path=str(path),
            )
        names.add(path.name)


def file_hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its name."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def release_hash(settings: Mapping[str, Any], contents: Mapping[str, str]) -> str:
    """Return the hash of a release. `contents`: the SHA-256 of each file, by its name."""
    return hashlib.sha256(json.dumps([settings, contents], sort_keys=True).encode()).hexdigest()


def _sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open(open_file(path), "rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


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
        # So that the clean-up, which knows of no deployment of it yet, takes it for a new one.
        with contextlib.suppress(PermissionError):  # another of Airflow's users published it
            os.utime(folder)
        return
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    make_folder(temporary, _FOLDER_MODE)
    try:
        for name, data in files.items():
            write_new(temporary / name, data, mode=_FILE_MODE, sync=True)
        sync_folder(temporary)
        try:
            temporary.rename(folder)
            sync_folder(folder.parent)
        except OSError:
            # Another process may have published the same contents meanwhile; rename never replaces its folder.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)

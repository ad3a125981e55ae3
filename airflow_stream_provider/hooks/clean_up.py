"""Remove what nobody needs any more from a stream's folder, so that it does not grow with the stream's age."""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_stream_provider.control.disk import unavailable, write_new
from airflow_stream_provider.lifecycle.ids import INCARNATION, RELEASE_HASH
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.clean_up import Stored, expendable

# What was written more recently stays: a release that is about to be declared, a starting driver, a slow writer's file.
IDLE_SECONDS = 86400.0

log = logging.getLogger(__name__)


def clean_up(folder: Path, read: Callable[[], StreamState]) -> Stored:
    """Remove heartbeats and releases that may go (see `expendable`), and files that killed writers have left.

    What cannot be removed is logged, and tried again the next time.

    :param folder: the stream's folder.
    :param read: returns the newest state of the log; called after the folder was listed.
    :return: what may go.
    :raises ControlUnavailable: the folder cannot be read or written now.
    """
    heartbeats, releases, incoming = (folder / name for name in ("heartbeats", "releases", "incoming"))
    with unavailable(folder):
        now = _now(incoming)
        beats = {path.name.removesuffix(".json"): path for path in _idle(heartbeats, now)}
        published = {path.name: path for path in _idle(releases, now)}
        unfinished = [path for name, path in (beats | published).items() if name.startswith(".")]
        left = [*_idle(incoming, now), *unfinished]
    known = Stored(
        frozenset(name for name in beats if INCARNATION.fullmatch(name)),
        frozenset(name for name in published if RELEASE_HASH.fullmatch(name)),
    )
    gone = expendable(read(), known)
    for path in (*left, *(beats[name] for name in gone.heartbeats)):
        _remove(path)
    for name in gone.releases:
        # Aside first: nobody shall find a part of a release.
        aside = releases / f".{name}.{uuid.uuid4().hex}"
        try:
            published[name].rename(aside)
        except OSError as error:
            log.warning("The release %s cannot be removed: %s", name, error)
            continue
        _remove(aside)
    return gone


def _now(folder: Path) -> float:
    """Return the time by the clock that dates the files of this folder, in seconds since 1970."""
    probe = folder / f"new.time.{uuid.uuid4().hex}"
    write_new(probe, b"")
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink()


def _idle(folder: Path, now: float) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        try:
            written = os.lstat(path).st_mtime
        except FileNotFoundError:
            continue
        if now - written > IDLE_SECONDS:
            yield path


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)

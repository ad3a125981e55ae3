"""Remove what nobody needs any more from a stream's folder, so that it does not grow with the stream's age."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from airflow_stream_provider.control.disk import open_folder, unavailable
from airflow_stream_provider.lifecycle.ids import INCARNATION, RELEASE_HASH
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.clean_up import Stored, expendable

# What was written more recently stays: a release that is about to be declared, a starting driver, a slow writer's file.
IDLE_SECONDS = 86400.0

log = logging.getLogger(__name__)


def clean_up(folder: Path, read: Callable[[], StreamState]) -> Stored:
    """Remove heartbeats and releases that may go (see `expendable`), and files that killed writers have left.

    What cannot be removed is logged, and tried again the next time.

    Folders of the stream are never followed when they are links: whoever may write to the control root could have
    anything removed that Airflow's user may remove.

    :param folder: the stream's folder.
    :param read: returns the newest state of the log; called after the folder was listed.
    :return: what may go.
    :raises ControlUnavailable: the folder cannot be read or written now, or one of its folders is none.
    """
    with unavailable(folder), ExitStack() as opened:
        stream = opened.enter_context(open_folder(folder))
        heartbeats, releases, incoming = (
            opened.enter_context(open_folder(name, inside=stream)) for name in ("heartbeats", "releases", "incoming")
        )
        now = _now(incoming)
        beats, published, left = (_idle(each, now) for each in (heartbeats, releases, incoming))
        known = Stored(
            frozenset(name for name in map(_incarnation, beats) if INCARNATION.fullmatch(name)),
            frozenset(name for name in published if RELEASE_HASH.fullmatch(name)),
        )
        gone = expendable(read(), known)
        for name in left:
            _remove(name, incoming)
        for name in beats:
            if name.startswith(".") or _incarnation(name) in gone.heartbeats:
                _remove(name, heartbeats)
        for name in published:
            if name.startswith("."):
                _remove(name, releases)
            elif name in gone.releases:
                _remove_release(name, releases)
    return gone


def _incarnation(name: str) -> str:
    return name.removesuffix(".json")


def _now(folder: int) -> float:
    """Return the time by the clock that dates the files of this folder, in seconds since 1970."""
    probe = f"new.time.{uuid.uuid4().hex}"
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        return os.fstat(handle).st_mtime
    finally:
        os.close(handle)
        os.unlink(probe, dir_fd=folder)


def _idle(folder: int, now: float) -> list[str]:
    """Return the names in an open folder that nobody has written for long."""
    names = []
    for name in sorted(os.listdir(folder)):
        with suppress(FileNotFoundError):
            if now - os.lstat(name, dir_fd=folder).st_mtime > IDLE_SECONDS:
                names.append(name)
    return names


def _remove_release(name: str, releases: int) -> None:
    # Aside first: nobody shall find a part of a release.
    aside = f".{name}.{uuid.uuid4().hex}"
    try:
        os.rename(name, aside, src_dir_fd=releases, dst_dir_fd=releases)
    except OSError as error:
        log.warning("The release %s cannot be removed: %s", name, error)
    else:
        _remove(aside, releases)


def _remove(name: str, folder: int) -> None:
    try:
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except (OSError, RecursionError) as error:  # RecursionError: folders in folders in folders
        log.warning("%s cannot be removed: %s", name, error)

"""Folders of this user on this machine: for the locks, the logs and some submissions of local drivers.

Locks and logs are not in the control folder: file locks on network file systems are not inherited by a driver, and logs
that fill the control folder's disk would pause every stream there.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from airflow_stream_provider.lifecycle.errors import ClusterError

NAME = "airflow-stream-provider"
# How often a lock is tried, and how long it is waited between.
_TRIES, _SWEEP_SECONDS = 5, 0.02


def log_folder(stream: str) -> Path:
    """Return the folder for the logs of a stream's local drivers: ``$XDG_STATE_HOME`` (default ``~/.local/state``)
    ``/airflow-stream-provider/drivers/<stream>``.

    :raises ClusterError: it cannot be used; see `_private`.
    """
    return _private(_private(_state() / "drivers") / stream)


def driver_folder(stream: str) -> Path:
    """Return the folder for the drivers of a stream that has none in a control folder, named by stream and host.

    :raises ClusterError: it cannot be used; see `_private`.
    """
    return _private(_private(_state() / "submissions") / f"{stream}@{socket.gethostname()}")


def take_lock(name: str) -> int | None:
    """Take a lock, and return the descriptor that holds it until all who inherit it have ended; None: it is taken.

    The files of locks that nobody holds any more are removed.

    :raises ClusterError: the folder of the locks cannot be used; see `_private`.
    """
    folder = lock_folder()
    for _ in range(_TRIES):
        held = _flock(folder / name, os.O_CREAT)
        if held is not None:
            for other in folder.iterdir():
                if other.name != name:
                    _remove_free(other)
            return held
        # Who sweeps holds it for a moment, or has removed the file since it was opened.
        time.sleep(_SWEEP_SECONDS)
    return None


def _flock(path: Path, flags: int = 0) -> int | None:
    """Open and lock a file; None: somebody holds it, or it is not at this path any more."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A lock on a file that was removed meanwhile hinders nobody.
        if os.path.samestat(os.fstat(handle), path.lstat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None


def _remove_free(path: Path) -> None:
    with suppress(OSError):
        held = _flock(path)
        if held is not None:
            path.unlink()
            os.close(held)


def lock_folder() -> Path:
    """Return the folder for the locks: ``$XDG_RUNTIME_DIR/airflow-stream-provider``, which ends with the machine.

    Where that is not this user's own, it is below the folder for temporary files. Everybody may write there, so its
    name has a random part that only this user can read.

    :raises ClusterError: it cannot be used; see `_private`.
    """
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    with suppress(OSError):
        found = os.stat(given)
        if given.startswith("/") and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700:
            return _private(Path(given) / NAME)
    return _private(Path(tempfile.gettempdir()) / f"{NAME}-{os.getuid()}-{_token()}")


def _state() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    # The standard says that a relative path is to be ignored.
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(base, error.strerror or "it cannot be created") from error
    return _private(base / NAME)


def _token() -> str:
    file = _state() / "token"
    made = file.with_name(f".token.{secrets.token_hex(8)}")
    try:
        if not file.exists():
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
                new.write(secrets.token_hex(8))
            # Of two processes the first one's counts.
            with suppress(FileExistsError):
                os.link(made, file)
            made.unlink()
        return file.read_text()
    except OSError as error:
        raise _unusable(file, error.strerror or "it cannot be written") from error


def _private(folder: Path) -> Path:
    """Make a folder that only this user can use, or check that it is one.

    :raises ClusterError: it is a symbolic link, belongs to somebody else, others may write to it, or it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise _unusable(folder, error.strerror or "it cannot be created") from error
    if not stat.S_ISDIR(found.st_mode):
        raise _unusable(folder, "it is a symbolic link")
    if found.st_uid != os.getuid():
        raise _unusable(folder, f"it belongs to the user {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _unusable(folder, "others may write to it")
    return folder


def _unusable(folder: Path, why: str) -> ClusterError:
    return ClusterError(
        f"{folder} cannot be used for local drivers: {why}.",
        next_step="Make it a folder that belongs to the user of the Airflow workers and that nobody else can write to, "
        "or set XDG_STATE_HOME, for locks also XDG_RUNTIME_DIR, to another place. Nothing was started.",
        folder=str(folder),
    )

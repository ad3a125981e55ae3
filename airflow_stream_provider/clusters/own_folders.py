"""Folders of this user on this machine: for the locks, the logs and some submissions of local drivers.

Locks and logs are not in the control folder: file locks on network file systems are not inherited by a driver, and logs
that fill the control folder's disk would pause every stream there.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

from airflow_stream_provider.lifecycle.errors import ClusterError

NAME = "airflow-stream-provider"


def log_folder(stream: str) -> Path:
    """Return the folder for the logs of a stream's local drivers: ``$XDG_STATE_HOME`` (default ``~/.local/state``)
    ``/airflow-stream-provider/drivers/<stream>``.

    :raises ClusterError: it cannot be used.
    """
    return _private(_state(), "drivers", stream)


def driver_folder(stream: str) -> Path:
    """Return the folder for the drivers of a stream that has none in a control folder, named by stream and host.

    :raises ClusterError: it cannot be used.
    """
    return _private(_state(), "submissions", f"{stream}@{socket.gethostname()}")


def lock_folder() -> Path:
    """Return the folder for the locks, which ends with the machine: ``airflow-stream-provider-<uid>`` in
    ``$XDG_RUNTIME_DIR``, or without that in the folder for temporary files.

    :raises ClusterError: it cannot be used.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = Path(runtime if os.path.isdir(runtime) else tempfile.gettempdir())
    return _private(base / f"{NAME}-{os.getuid()}")


def take_lock(name: str) -> int | None:
    """Take a lock, and return the descriptor that holds it until all who inherit it have ended; None: it is taken.

    :raises ClusterError: the folder of the locks cannot be used.
    """
    file = lock_folder() / name
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(file.parent, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _state() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / NAME


def _private(folder: Path, *below: str) -> Path:
    """Make a folder that only this user can use, and the folders below it; return the last one."""
    found = folder.joinpath(*below)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(found, error) from error
    return found


def _unusable(folder: Path, error: OSError) -> ClusterError:
    return ClusterError(
        f"{folder} cannot be used for local drivers: {error.strerror}.",
        next_step="Make it a folder of the user of the Airflow workers, or set XDG_STATE_HOME, for locks "
        "XDG_RUNTIME_DIR, to another place. Nothing was started.",
        folder=str(folder),
    )

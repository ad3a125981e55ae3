"""Folders that belong to this driver alone: what a query keeps there, no other driver finds, and some are removed.

In one of them the cluster keeps what the driver writes, which it does not keep small.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow_stream_provider.checkpoint import locate
from airflow_stream_provider.checkpoint.files import RemotePath
from airflow_stream_provider.lifecycle.errors import CheckpointError

# By real path, what it is.
_own: dict[str, str] = {}
# The folder in which the cluster starts this driver: a script may go elsewhere.
_here = ""
# Temporary folders that this process has made. A script may make one for each batch: only the last ones are kept.
_made: deque[str] = deque(maxlen=1000)


def install(private: Path) -> None:
    """Note the folders of this driver; call it in the folder in which the cluster starts it, before the script runs.

    A folder for temporary files counts when this process makes it; one that another program has made is not known.

    :param private: where the private copy of the release is.
    """
    _own[os.path.realpath(private)] = "the driver's private copy of the release"
    global _here
    _here = here = os.path.realpath(os.getcwd())
    if here != os.sep:  # in some containers; everything is below it
        _own[here] = "the driver's working folder"
    make = tempfile.mkdtemp

    @functools.wraps(make)
    def noting(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        _made.append(os.path.realpath(os.fsdecode(made)))
        return made

    tempfile.mkdtemp = noting  # TemporaryDirectory calls it, too


def own_folder(path: str | os.PathLike[str]) -> str:
    """Return which folder of this driver a path is in, in words; empty when it is in none."""
    real = os.path.realpath(path)
    known = {**dict.fromkeys(_made.copy(), "a temporary folder that this driver has made"), **_own}
    found = (f"{folder}, {what}" for folder, what in known.items() if os.path.commonpath([real, folder]) == folder)
    return next(found, "")


# How often the sizes of the driver's logs are looked at.
LOG_SECONDS = 10.0
# As a worker begins a driver's stderr (DriverRunner.runDriver). The cluster is searched for a driver by it.
_HEAD, _HEAD_ENDS, _HEAD_BYTES = b"Launch Command: ", b"\n" + b"=" * 40 + b"\n", 256 * 1024


def logs() -> list[Path]:
    """Return the files into which a standalone worker or a NodeManager writes what this driver says; elsewhere none."""
    folder = Path(os.environ.get("LOG_DIRS", "").partition(",")[0] if "CONTAINER_ID" in os.environ else _here)
    return [path for path in (folder / "stdout", folder / "stderr") if path.is_file()]


def keep_logs_small(size: int) -> None:
    """Copy each of `logs` that has more than so many bytes to ``.1``, in place of the one before, and cut it.

    They are appended to through descriptors that others hold: a file that is renamed would be written on. Python and
    whatever else writes there is in them, too, and people find them where they were. A line that comes between copy
    and cut is lost.
    """
    for path in logs():
        with suppress(OSError), open(path, "r+b", opener=_no_link) as log:
            found = os.fstat(log.fileno())
            if stat.S_ISREG(found.st_mode) and found.st_size > size:
                head = log.read(_HEAD_BYTES)
                end = head.find(_HEAD_ENDS) if head.startswith(_HEAD) else -1
                log.seek(0)
                try:
                    with open(f"{path}.1.part", "wb", opener=_no_link) as kept:
                        os.fchmod(kept.fileno(), stat.S_IMODE(found.st_mode))
                        shutil.copyfileobj(log, kept)
                    os.replace(f"{path}.1.part", f"{path}.1")
                finally:  # on a full disk nothing is kept
                    log.truncate(end + len(_HEAD_ENDS) if end >= 0 else 0)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def check_kept(location: str) -> None:
    """Check that a checkpoint outlives this driver.

    :raises CheckpointError: it is in a folder of this driver, or `checkpoint.locate` refuses it.
    """
    path = locate(location)
    own = "" if isinstance(path, RemotePath) else own_folder(path)
    if own:
        raise CheckpointError(
            f"The checkpoint {path} is in {own}: no other driver could continue it.",
            next_step="Set checkpointLocation to a folder on storage that all drivers mount; os.path.abspath, __file__ "
            "and tempfile give folders of one driver.",
            location=str(path),
        )

"""What is made once on a machine and used by every stack after that: fetched jars, a migrated database."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER_VARIABLE = "AIRFLOW_STREAM_CACHE"


def cache_folder() -> Path:
    """Where made things are kept: $AIRFLOW_STREAM_CACHE, else `build/` in the working folder."""
    return Path(os.environ.get(FOLDER_VARIABLE, "build")).absolute()


def once(wanted: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder `wanted`, filled by `make` if it is not there yet.

    It appears under its name only when it is complete. Threads and processes that ask at once wait for the first.
    """
    if wanted.is_dir():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with (wanted.parent / f".{wanted.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.is_dir():
            for torn in wanted.parent.glob(f".{wanted.name}.*/"):
                shutil.rmtree(torn)
            filling = Path(tempfile.mkdtemp(prefix=f".{wanted.name}.", dir=wanted.parent))
            try:
                make(filling)
                filling.rename(wanted)
            finally:
                shutil.rmtree(filling, ignore_errors=True)
    return wanted

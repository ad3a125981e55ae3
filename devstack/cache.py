"""Cache what every stack on this machine needs: fetched jars, a migrated Airflow database."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER_VARIABLE = "AIRFLOW_STREAM_CACHE"


def cache_folder() -> Path:
    """Return the folder of the cache: $AIRFLOW_STREAM_CACHE, by default `build/` in the working folder."""
    return Path(os.environ.get(FOLDER_VARIABLE, "build")).absolute()


def once(wanted: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder `wanted`. If it does not exist, create it and let `make` fill it.

    The folder gets its name only when it is complete. If several threads or processes need it, one of them makes it
    and the others wait.

    :param make: fills the folder that it is given.
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

"""Which files may be part of a release.

A person who triggers an upgrade names the script. That right must neither run nor read other files of the machine:
Python's own modules, Airflow's configuration, other people's files.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from airflow_stream_provider.lifecycle.errors import SpecError

MAX_SCRIPT_BYTES = 5 * 1024 * 1024
# The suffix of a zip with dependencies.
MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
# Archives that Spark puts on its executors' path (SparkContext.PACKAGE_EXTENSIONS); it copies others there in vain.
_IMPORTED = (".zip", ".egg", ".jar")


def check_file(path: Path, folders: Sequence[Path]) -> None:
    """Check that a file may be published.

    :param folders: the file must be inside each of them once all symbolic links are followed.
    :raises SpecError: it is elsewhere, not there, not a regular file, too large, not Python where it says so, or an
        archive that Spark does not import on executors, such as a wheel.
    """
    try:
        real = path.resolve()
        inside = all(real.is_relative_to(folder.resolve()) for folder in folders)
        size = path.stat().st_size if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # a name with NUL, one that is too long, a circle of links
        inside = False
    if not inside:
        raise SpecError(
            f"{path} is outside {folders[-1]}, or leads out of it.",
            next_step="Put it into that folder, which holds the folder of the YAML files. Links may not lead out.",
            path=str(path),
        )
    if size is None:
        raise SpecError(
            f"There is no file {path}.",
            next_step="Check `application` and `py_files`: relative paths start at the folder that holds the folder "
            "of the YAML files.",
            path=str(path),
        )
    limit = MAX_SCRIPT_BYTES if path.suffix == ".py" else MAX_ARCHIVE_BYTES
    if size > limit:
        raise SpecError(
            f"{path} has {size} bytes; {limit} are allowed.",
            next_step="Scripts hold code; give data to the stream by its arguments.",
            path=str(path),
        )
    if path.suffix == ".py":
        _compile(path)
    elif path.suffix.lower() not in _IMPORTED and (path.suffix.lower() == ".whl" or zipfile.is_zipfile(path)):
        raise SpecError(
            f"{path} cannot be imported on executors: of archives, Spark puts only {', '.join(_IMPORTED)} on their "
            "path.",
            next_step="A wheel of pure Python is a zip: rename it to NAME.zip. One with compiled code has to be "
            "installed where the executors run.",
            path=str(path),
        )


def check_script(path: Path, folders: Sequence[Path]) -> None:
    """Check that a file may be the script of a release: as `check_file`, and its name ends in ``.py``."""
    if path.suffix != ".py":
        raise SpecError(f"{path} is not a .py file.", next_step="Name a PySpark script.", path=str(path))
    check_file(path, folders)


def _compile(path: Path) -> None:
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else error
        raise SpecError(
            f"{path}{line}: this is not Python: {what}.", next_step="Correct the script; nothing was submitted."
        ) from error

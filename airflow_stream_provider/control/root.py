"""The control root: the folder that holds the streams' folders, and a marker by which a missing mount is noticed."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_stream_provider.control.disk import FOLDER_MODE, sync_folder, unavailable, write_new
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError

MARKER = ".control-root"
_TEXT = b"The control root of airflow-stream-provider. Without this file every stream in it is out of reach.\n"


def local_folder(url: str) -> Path:
    """Return the folder of a control URL.

    :raises SpecError: the URL is not ``file:///an/absolute/folder``, or of a folder that no driver could use.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not os.path.isabs(path):
        raise SpecError(
            f"The control URL {parts.scheme or url!r} is not file:///an/absolute/folder.",
            next_step="Use a folder that Airflow and the Spark drivers both mount.",
        )
    if set("?#") & set(url) or "\0" in path:
        # The text behind them is no part of a URL's path: two folders would be one.
        raise SpecError(
            f"The control URL {url!r} has a character that ends the path of a URL.",
            next_step="Write %3F for ? and %23 for # in the name of a folder, or rename it.",
        )
    if "," in path:
        raise SpecError(
            f"The control URL {url!r} has a comma in its path, and Spark's lists of files (--py-files) are separated "
            "by commas: no driver could find a release in that folder.",
            next_step="Rename the folder, or mount it under another name.",
        )
    return Path(path)


def make_root(url: str) -> bool:
    """Make a folder a control root, once and by a person (`airflow streams init`); return False when it was one.

    The folder is created with mode 2770 if there is none; one that exists keeps its mode.

    :raises SpecError: the URL is no control URL, or everybody may write to the folder.
    :raises ControlUnavailable: the folder cannot be made or written.
    """
    folder = local_folder(url)
    with unavailable(folder):
        if not folder.is_dir():
            folder.mkdir(parents=True)
            folder.chmod(FOLDER_MODE)
        elif folder.stat().st_mode & stat.S_IWOTH:
            raise SpecError(
                f"Everybody may write to {folder}, and so run code as each of its streams.",
                next_step=f"Give it to one group: chgrp GROUP {folder}; chmod 2770 {folder}. See docs/security.md.",
                folder=str(folder),
            )
        with contextlib.suppress(FileExistsError):
            write_new(folder / MARKER, _TEXT, sync=True)
            sync_folder(folder)
            return True
    check_root(folder)
    return False


def check_root(folder: Path) -> None:
    """Check that a folder is a control root: a folder that is not mounted must not look like one without streams.

    :raises ControlUnavailable: it is not, or cannot be read.
    """
    with unavailable(folder):
        try:
            if stat.S_ISREG(os.lstat(folder / MARKER).st_mode):
                return
        except FileNotFoundError:
            pass
    raise ControlUnavailable(
        f"{folder} is not a control root: it has no file {MARKER}.",
        next_step="Mount the control folder on this machine, or correct `control` in the YAML. Only for a new control "
        f"folder, once: airflow streams init {folder.as_uri()}",
        folder=str(folder),
    )

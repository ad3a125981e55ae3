"""Remember in the control root which streams the watch has seen there, to notice that a stream's folder has gone."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_stream_provider.control.disk import FOLDER_MODE, make_folder, open_folder, unavailable
from airflow_stream_provider.lifecycle.errors import ControlUnavailable

# In the control root, with an empty file for each stream. No stream's name begins with a dot.
FOLDER = ".watched"


def seen(root: Path) -> frozenset[str]:
    """Return the streams that were noted under a control root.

    :raises ControlUnavailable: it cannot be read now.
    """
    with unavailable(root):
        try:
            with open_folder(root / FOLDER) as folder:
                return frozenset(os.listdir(folder))
        except FileNotFoundError:
            return frozenset()


def note(root: Path, stream: str) -> None:
    """Note that a stream has a folder there.

    :raises ControlUnavailable: that is not possible now.
    """
    with unavailable(root):
        make_folder(root / FOLDER, FOLDER_MODE)
        with open_folder(root / FOLDER) as folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            os.close(os.open(stream, flags, 0o660, dir_fd=folder))


def gone(folder: Path) -> ControlUnavailable:
    """Return the error for a stream whose folder was there once; `folder`: where."""
    return ControlUnavailable(
        f"There is no folder {folder}, though an earlier look of the watch has seen the stream there.",
        next_step="Mount or restore it; its drivers wait for it for some minutes. If the stream is to begin anew: "
        "see that no driver of it is left on the cluster, then deploy it. If it is not wanted any more: remove its "
        "YAML.",
        folder=str(folder),
    )

"""The folder of a control log that is on files, and a release in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_stream_provider.control import ControlLog, FilesStore
from airflow_stream_provider.control.releases import make_release, store
from airflow_stream_provider.lifecycle.release import Release


def folder_of(log: ControlLog) -> Path:
    """Return the stream's folder under the control root."""
    assert isinstance(log.store, FilesStore)
    return log.store.folder


def publish(stream_folder: Path, **parts: Any) -> Release:
    """Make a release of its parts (see `make_release`) and store it in a folder (see `store`)."""
    release, files = make_release(**parts)
    store(stream_folder, release, files)
    return release

"""The folder of a control log that is on files."""

from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.control import ControlLog, FilesStore


def folder_of(log: ControlLog) -> Path:
    """Return the stream's folder under the control root."""
    assert isinstance(log.store, FilesStore)
    return log.store.folder

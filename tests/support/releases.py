"""Releases for tests of the places that store them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_stream_provider.control.releases import make_release
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.place import StorageConnection
from devstack.hdfs import Hdfs

Parts = tuple[Release, dict[str, bytes]]


def release_of(folder: Path, text: str = "x = 1\n") -> Parts:
    """Return a release of a script with this text and of a py-file, and its files."""
    (folder / "app.py").write_text(text)
    (folder / "helper.py").write_text("def double(number):\n    return 2 * number\n")
    return make_release(version="1", application=folder / "app.py", py_files=[folder / "helper.py"])


def connection_of(fields: dict[str, Any], **changes: Any) -> StorageConnection:
    """Return an Airflow connection as a task reads it."""
    return StorageConnection(**{"conn_id": "storage", **fields, **changes})


def hdfs_connection(server: Hdfs) -> dict[str, Any]:
    """Return an Airflow connection to a running HDFS, as the user ``airflow``, who is not its superuser."""
    return {**server.connection, "login": "airflow"}

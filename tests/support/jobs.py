"""A job for a cluster, for tests that never run it."""

from __future__ import annotations

from collections.abc import Callable

from airflow_stream_provider.clusters import Job

ARGUMENTS = (
    "--control",
    "file:///data/streams",
    "--stream",
    "orders",
    "--deployment",
    "orders-2-1a2b",
    "--",
    "app.py",
    "x y",
)


def job(**changes: object) -> Job:
    fields: dict[str, object] = {
        "stream": "orders",
        "deployment": "orders-2-1a2b",
        "app_name": "orders 2 [orders-2-1a2b]",
        "release_dir": "/data/streams/orders/releases/abc",
        "stream_folder": "/data/streams/orders",
        "arguments": ARGUMENTS,
        "py_files": ("helpers.py",),
    }
    return Job(**{**fields, **changes})  # type: ignore[arg-type]


def noted(id: str) -> Callable[[str], str]:
    """Return what `Cluster.submit` notes an id by when the log has this one already."""
    return lambda made: id

"""Open the control root that a control URL names."""

from __future__ import annotations

from airflow_stream_provider.control.store import ControlRoot


def control_root(url: str) -> ControlRoot:
    """Return the control root of a URL. Nothing is asked for yet, but the Airflow connection that it names.

    :raises SpecError: no control log can live there, or the connection is missing.
    """
    from airflow_stream_provider.control.files_root import FilesRoot

    return FilesRoot(url)


async def acontrol_root(url: str) -> ControlRoot:
    """Return the control root of a URL; for triggers, whose threads cannot read connections. See `control_root`."""
    return control_root(url)

"""The control log: the append-only record of one stream's life, and where it can live."""

from __future__ import annotations

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.log import ControlLog

__all__ = ["ControlLog", "FilesStore", "open_log"]


def open_log(url: str, stream: str, *, create: bool = False) -> ControlLog:
    """Open the control log of a stream under a control URL such as ``file:///data/streams``.

    :param create: make the folders of a stream seen for the first time, after proving that the store keeps its
        promise (of two creates of one number exactly one wins). Drivers never create: a folder that is not there is
        one that was not mounted.
    :raises SpecError: the URL or the name cannot be used.
    :raises ControlUnavailable: the folder is not there or cannot be used now.
    """
    store = FilesStore.at(url, stream)
    if create:
        store.initialise()
    else:
        store.check()
    return ControlLog(store, stream)

"""The control log: the append-only record of a stream's deployments and holders, and its storage."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_stream_provider.control.files import FilesStore
    from airflow_stream_provider.control.files_root import FilesRoot
    from airflow_stream_provider.control.log import ControlLog
    from airflow_stream_provider.control.root import make_root

__all__ = ["ControlLog", "FilesRoot", "FilesStore", "make_root", "open_log"]
_MODULES = {"ControlLog": "log", "FilesRoot": "files_root", "FilesStore": "files", "make_root": "root"}


def __getattr__(name: str) -> Any:
    # Lazy: a DAG file that is parsed needs no more than what a control URL looks like.
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open_log(url: str, stream: str, *, create: bool = False) -> ControlLog:
    """Open the control log of a stream under a control URL such as ``file:///data/streams``.

    :param url: control URL.
    :param stream: name of the stream.
    :param create: create the folders of a new stream, after a test that of two exclusive creates only one succeeds.
        Default False. Drivers never create them.
    :raises SpecError: the URL or the name is not valid.
    :raises ControlUnavailable: the URL is no control root here (`make_root` makes one), the stream's folder does not
        exist, or it cannot be used now.
    """
    from airflow_stream_provider.control.files_root import FilesRoot
    from airflow_stream_provider.control.log import ControlLog

    return ControlLog(FilesRoot(url).store(stream, create=create), stream)

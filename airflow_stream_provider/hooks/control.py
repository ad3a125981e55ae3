"""Open the control root that a control URL names; one for all its users in a process."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.connections import akafka_extra, kafka_extra
from airflow_stream_provider.spec.control_url import TopicAddress

_lock = threading.Lock()
# For this process only: a client of Kafka does not outlive a fork. By URL, with the connection as it was read.
_opened: dict[tuple[int, str], tuple[Mapping[str, Any], ControlRoot]] = {}


def control_root(url: str, *, fresh: bool = False) -> ControlRoot:
    """Return the control root of a URL. Nothing is asked for yet but the Airflow connection that it names.

    In a trigger's thread, which cannot read connections, call `acontrol_root` before.

    :param fresh: read the connection as it is now. Default False: as this process has read it last.
    :raises SpecError: no control log can live there.
    :raises ConnectionUnavailable: the connection cannot be read.
    """
    known = _opened.get((os.getpid(), url))
    if known is not None and not fresh:
        return known[1]
    address = TopicAddress.parse(url)
    return _root(url, address, {} if address is None else kafka_extra(address.connection))


async def acontrol_root(url: str) -> ControlRoot:
    """Return the control root of a URL, with the connection as it is now; for triggers. See `control_root`."""
    address = TopicAddress.parse(url)
    return _root(url, address, {} if address is None else await akafka_extra(address.connection))


def close_roots() -> None:
    """Close what this process has open to control roots; each is opened again when it is used."""
    for (process, _), (_, root) in list(_opened.items()):
        if process == os.getpid():
            root.close()


def _root(url: str, address: TopicAddress | None, extra: Mapping[str, Any]) -> ControlRoot:
    with _lock:
        known = _opened.get((os.getpid(), url))
        if known is not None and known[0] == extra:
            return known[1]
        root = _made(url, address, extra)
        _opened[os.getpid(), url] = (extra, root)
    if known is not None:
        # Not here, which may be an event loop: requests that are under way are waited for.
        threading.Thread(target=known[1].close, name="airflow-stream-close", daemon=True).start()
    return root


def _made(url: str, address: TopicAddress | None, extra: Mapping[str, Any]) -> ControlRoot:
    if address is None:
        from airflow_stream_provider.control.files_root import FilesRoot

        return FilesRoot(url)
    from airflow_stream_provider.kafka.control_root import TopicRoot

    return TopicRoot(url, address.connection, extra, address.prefix)

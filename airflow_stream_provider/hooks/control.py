"""Open the control root that a control URL names; one for all its users in a process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.connections import akafka_extra, kafka_extra
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.spec.fields import TopicAddress
from airflow_stream_provider.spec.watched import Declared

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


def declared(stream: str, control: str) -> Declared | None:
    """Return a stream as it was declared last under a control root; None: it was not, or the note cannot be used.

    :raises SpecError: no control log can live there.
    :raises ControlUnavailable: the control root cannot be read now.
    """
    return Declared.read(stream, control, control_root(control).noted(stream).get(stream, b""))


class Newest:
    """Holds a control log against the heartbeats beside it. Drivers say in them how far they have read."""

    def __init__(self, log: ControlLog) -> None:
        self._log = log
        self._passed: set[str] = set()

    def check(self, beats: Mapping[str, Heartbeat]) -> None:
        """Check that the log, as it was read last, has every record that a driver has read.

        :param beats: those that were read just now. All others are read here, each once: they are not written any more.
        :raises ControlLogDamaged: it has not.
        :raises ControlUnavailable: the store cannot be read now.
        """
        others = [name for name in self._log.store.heartbeats() if name not in beats and name not in self._passed]
        read = {name: self._log.heartbeat(name) for name in others}
        found = {**beats, **{name: beat for name, beat in read.items() if beat is not None}}
        if self._ahead(found.items()):
            # They may have been read since. An NFS client reads what it took for missing when it has listed the folder.
            self._log.store.next_number(self._log.state.seq)
            state = self._log.refresh()
            for name, beat in self._ahead(found.items()):
                raise ControlLogDamaged(
                    f"The control log of {self._log.stream} ends at record {state.seq} (epoch {state.epoch}), but its "
                    f"driver {name} has read record {beat.seq} (epoch {beat.epoch}): it, or a part of it, was put "
                    "back from an older copy.",
                    next_step="Restore the records that are missing. If there is no copy of them: see that no driver "
                    f"of the stream is left on the cluster, then remove its heartbeat (heartbeats/{name}.json in a "
                    "folder, docs/control.md says how in a topic). See 'A damaged control log' in "
                    "docs/trouble/damaged_log.md.",
                    incarnation=name,
                    seq=state.seq,
                )
        self._passed.update(others)

    def _ahead(self, beats: Iterable[tuple[str, Heartbeat]]) -> list[tuple[str, Heartbeat]]:
        state = self._log.state
        return [(name, beat) for name, beat in beats if beat.seq > state.seq or beat.epoch > state.epoch]

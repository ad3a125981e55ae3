"""Notice a control log that is older than what its drivers have read: it, or a part of it, was put back from a copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat


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
                    "folder, docs/control.md says how in a topic). See 'A damaged control log' in docs/operations.md.",
                    incarnation=name,
                    seq=state.seq,
                )
        self._passed.update(others)

    def _ahead(self, beats: Iterable[tuple[str, Heartbeat]]) -> list[tuple[str, Heartbeat]]:
        state = self._log.state
        return [(name, beat) for name, beat in beats if beat.seq > state.seq or beat.epoch > state.epoch]

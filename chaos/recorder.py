"""Record, while a run goes on, what is purged or replaced before its end: batches, records and heartbeats."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from airflow_stream_provider.checkpoint.logs import kafka_offsets, numeric_names, read_offsets
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import DriverPhase, Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from chaos.batches import Batch
from chaos.records import some
from devstack.audit import end_offsets
from devstack.commits import CommitWatcher
from devstack.control_folder import folder_of

# Spark keeps 100 batches, and the shortest trigger here is a second.
LOOK_SECONDS = 0.5
# What a look that hangs is waited for at the end.
END_SECONDS = 10.0
# A driver that runs beats every second. One that was frozen while it wrote a heartbeat writes it when it wakes.
GAP_SECONDS = 3.0
INPUT = "orders"

_RUNS_QUERIES = (DriverPhase.RUNNING.value, DriverPhase.RELEASING.value)


@dataclass
class Span:
    """A time in which a driver said again and again that it runs the queries, in seconds since 1970."""

    since: float
    until: float


@dataclass
class Sighting:
    """What the heartbeats of one driver have said.

    :param last: the last one that could be read.
    :param spans: when it ran the queries.
    """

    last: Heartbeat = field(default_factory=Heartbeat)
    spans: list[Span] = field(default_factory=list)
    _goes_on: bool = False

    def saw(self, beat: Heartbeat, at: float) -> None:
        """Note a heartbeat, which may be the same as before.

        :param at: when it was written.
        """
        if beat.counter == self.last.counter:
            return
        runs = beat.phase in _RUNS_QUERIES
        if runs and self._goes_on and at - self.spans[-1].until < GAP_SECONDS:
            self.spans[-1].until = at
        elif runs:
            self.spans.append(Span(at, at))
        self.last, self._goes_on = beat, runs


class Evidence:
    """Records batches, records and heartbeats while its `with` block runs, in daemon threads.

    Nothing that hangs, is away or damaged ends it: it looks again. Times are those of files, by the clock of the
    kernel: a driver whose own clock jumps changes none of them.

    :param brokers: bootstrap servers of Kafka.
    :param checkpoints: folder of each query's checkpoint, by name of the query. They need not exist yet.
    :param log: the stream's control log; only its store is used, which several threads may.
    :param folder: folder of the run, with the journal of its producer.
    """

    def __init__(self, brokers: str, checkpoints: Mapping[str, Path], log: ControlLog, folder: Path) -> None:
        self.brokers = brokers
        self.checkpoints = dict(checkpoints)
        self.log = log
        self.folder = folder
        self.records: list[tuple[Record, float]] = []
        """The records of the control log, each with the time of its file."""
        self.sightings: dict[str, Sighting] = {}
        """What the heartbeats have said, by incarnation."""
        self._data: list[bytes] = []
        self._died: list[str] = []
        self._commits = CommitWatcher(self.checkpoints)
        self._planned: dict[str, dict[int, tuple[Mapping[int, int], float]]] = {q: {} for q in self.checkpoints}
        self._stopped = threading.Event()
        looks = (self._look_at_checkpoints, self._look_at_log, self._look_at_heartbeats)
        self._threads = [threading.Thread(target=self._run, args=(look,), daemon=True) for look in looks]

    def __enter__(self) -> Evidence:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopped.set()
        until = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def look(self) -> None:
        """Look once more at everything, in this thread; after the `with` block, when nothing hangs any more."""
        self._look_at_checkpoints()
        self._look_at_log()
        self._look_at_heartbeats()

    def gaps(self) -> list[str]:
        """Return what was not recorded as it was, each as a sentence; after the `with` block.

        These are records of the control log that nobody read or that have changed since, and looks that raised.
        """
        found, read = list(self._died), len(self._data)
        folder = folder_of(self.log) / "log"
        there = {int(path.stem): path for path in folder.glob("*.json") if path.stem.isdecimal()}
        self._look_at_log()  # the stream still runs: what is unread now was there before this look
        last = max((*there, read))
        if missing := [seq for seq in range(1, last + 1) if seq not in there]:
            found.append(f"The control log has no record {some(missing)}, and goes to {last}. Find out who removed it.")
        if unread := [seq for seq in there if seq > len(self._data)]:
            found.append(
                f"Nobody has read the records {some(unread)} of the control log, so nothing is judged by them."
            )
        changed = [seq for seq, data in enumerate(self._data, 1) if seq in there and there[seq].read_bytes() != data]
        if changed:
            found.append(f"The records {some(changed)} of the control log were changed. Find out who wrote them.")
        return found

    def batches(self, query: str) -> list[Batch]:
        """Return what is known of a query's batches, oldest first."""
        commits = dict(self._commits.commits[query])
        planned = dict(self._planned[query])
        return [Batch(number, *planned[number], commits.get(number)) for number in sorted(planned)]

    def unread(self) -> str:
        """Return what the stream has not committed yet of its input, as a sentence; empty when that is nothing."""
        ends = end_offsets(self.brokers, INPUT)
        self._look_at_checkpoints()
        for query in self.checkpoints:
            done = [batch for batch in self.batches(query) if batch.committed is not None]
            read = done[-1].ends if done else {}
            if read != ends:
                return f"{query} has committed {dict(read)} of {INPUT}, which ends at {ends}."
        return ""

    def _run(self, look: Callable[[], None]) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                with contextlib.suppress(OSError, StreamError):
                    look()
            except Exception as error:
                self._died.append(f"The recorder stopped looking ({look.__name__}): {error!r}. Mend it.")
                raise

    def _look_at_checkpoints(self) -> None:
        for query, folder in self.checkpoints.items():
            known = self._planned[query]
            for batch in numeric_names(folder / "offsets"):
                path = folder / "offsets" / str(batch)
                # Purged since it was listed, or just being written.
                with contextlib.suppress(FileNotFoundError, StreamError):
                    if batch not in known:
                        sources = [kafka_offsets(text) or {} for text in read_offsets(path).sources.values()]
                        known[batch] = (sources[0].get(INPUT, {}), path.stat().st_mtime)
        self._commits.look()

    def _look_at_log(self) -> None:
        while True:
            seq = len(self.records) + 1
            try:
                data, at = _read(folder_of(self.log) / "log" / f"{seq:020d}.json")
            except FileNotFoundError:
                return
            self.records.append((Record.read(data, seq), at))
            self._data.append(data)

    def _look_at_heartbeats(self) -> None:
        for path in (folder_of(self.log) / "heartbeats").glob("*.json"):
            # Torn, or replaced since it was listed: the next one can be read.
            with contextlib.suppress(FileNotFoundError, StreamError):
                data, at = _read(path)
                beat = Heartbeat.from_json(data, path.stem)
                self.sightings.setdefault(path.stem, Sighting()).saw(beat, at)


def _read(path: Path) -> tuple[bytes, float]:
    """Return the contents of a file and when they were written."""
    with path.open("rb") as file:
        return file.read(), os.fstat(file.fileno()).st_mtime

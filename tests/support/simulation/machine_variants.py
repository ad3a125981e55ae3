"""The state machine of the model check on real files, with little kept, from other beginnings and to other ends."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle import saved_state
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamPhase
from tests.support.simulation.invariants import expect
from tests.support.simulation.machine import Streams
from tests.support.simulation.memory_store import MemoryStore


class StreamsDown(Streams):
    """Nobody holds, and a person stops the stream while the watch is about to bring it back."""

    @initialize(
        how=st.sampled_from(["SIGTERM", "failed"]),
        watched=st.sampled_from(["at once", "by runs"]),
        schedule=st.binary(max_size=24),
    )
    def begin(self, how: str, watched: str, schedule: bytes) -> None:
        self.watched = watched
        self.deploy(0)
        self.hand_over(0)
        driver = self.world.drivers[str(self.oracle.state.holder)]
        if how == "SIGTERM":
            driver.terminate()
        else:
            driver.mishap = how
            driver.clock += 1.0
        self.recovery.until(lambda: self.oracle.state.phase in (StreamPhase.DOWN, StreamPhase.FAILED))
        self.watch(runs=watched == "by runs")
        self.ask("stop", 0)
        self._go_on(self.world.awake, schedule)


class StreamsOnFiles(Streams):
    """The same on real files, which are slower; in memory where there is such a place, for the disks' sake."""

    def new_store(self) -> Store:
        temporary = TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        folder = Path(self.within.enter_context(temporary))
        make_root(folder.as_uri())
        store = FilesStore(folder / "orders")
        store.initialise()
        return store


class StreamsPruned(Streams):
    """The same with next to nothing kept of what has ended."""

    def new_store(self) -> Store:
        for name in ("PRUNE_EVERY", "DEPLOYMENTS_KEPT", "INCARNATIONS_KEPT", "REQUESTS_KEPT", "WISHES_KEPT"):
            self.within.enter_context(patch.object(saved_state, name, 1))
        return super().new_store()


class StreamsPutBack(Streams):
    """In the end the log is put back from a copy under the living drivers, and grows again."""

    def __init__(self) -> None:
        super().__init__()
        self.copied = 0
        self.grows = 0

    @rule(grows=st.integers(-1, 1))
    def the_log_is_copied(self, grows: int) -> None:
        """`grows`: after it is put back, the log becomes shorter than it was, as long, or longer."""
        self.copied, self.grows = self.oracle.seen, grows

    def end(self) -> None:
        assert isinstance(self.world.store, MemoryStore)
        self.all_comes_back()
        self.recovery.heal()
        stored, read = self.world.store.stored, {d: d.log.state.seq for d in self.world.drivers.values()}
        long = len(stored)
        for seq in range(self.copied + 1, long + 1):
            del stored[seq]
        self.world.store.saved = None
        log = ControlLog(self.world.store, "orders")
        while len(stored) < long + self.grows:
            log.propose(lambda state: Record("admired", by="after the copy"))
        for _ in range(30):
            self.world.tick(1.0)
            for actor in self.world.awake():
                if not actor.over:
                    actor.step()
        # A record on its way lands behind a number that is missing now: then everybody refuses the log, and waits.
        refused = max(stored, default=0) > len(stored)
        for driver, seq in read.items():
            stopped = driver.over or (refused and not driver.writing)
            expect(stopped or seq <= self.copied, "one-log", driver.incarnation)
        for actor in self.world.living():
            actor.crash()

"""Several processes append to one log in a folder as fast as they can, while they are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.lifecycle.record import Record
from tests.support.control_root import new_log

ROOT = Path(__file__).parents[3]
KILLS = 12


class Writers:
    """Processes that append to the log; each writes its output to its own file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.control = (folder / "control").as_uri()
        self.log = new_log(self.control, "orders")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> str:
        name = f"writer-{len(self.processes)}"
        command = [sys.executable, "-m", "tests.support.append_on", self.control, "orders", name]
        with open(self.folder / name, "wb") as said:
            self.processes[name] = subprocess.Popen(command, cwd=ROOT, stdout=said)
        return name

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def said(self, name: str) -> list[str]:
        # An incomplete last line of a killed process is dropped.
        return [line.strip() for line in (self.folder / name).read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def claims(self, name: str) -> list[int]:
        return [int(line) for line in self.said(name) if line.isdecimal()]

    def grow(self, by: int) -> None:
        """Wait until the log has grown by a number of records."""
        wanted = self.log.refresh().seq + by
        deadline = time.monotonic() + 600
        while self.log.refresh().seq < wanted:
            assert time.monotonic() < deadline, f"the log stands still at {self.log.state.seq}"
            time.sleep(0.005)


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[Writers]:
    running = Writers(tmp_path)
    yield running
    for name in running.processes:
        running.kill(name)


def whole_log(writers: Writers) -> list[Record]:
    """Read all records again, and check that no number is missing and no other file is left."""
    log = ControlLog(writers.log.store, "orders")
    records = log.records()
    names = sorted(path.name for path in (writers.folder / "control" / "orders" / "log").iterdir())
    assert names == [f"{seq:020d}.json" for seq in range(1, len(records) + 1)]
    assert len({record.nonce for record in records}) == len(records)
    return records


def check_claims(writers: Writers, records: list[Record]) -> None:
    """Check that each number belongs to the process that reported it, and that no process had an error."""
    identity = {record.seq: record.by for record in records}
    written = Counter(identity.values())
    for name in writers.processes:
        claims = writers.claims(name)
        assert writers.said(name) == [str(seq) for seq in claims], "only numbers: others' deaths are no error"
        assert {identity[seq] for seq in claims} <= {name}
        # A killed process may have written one record more than it reported.
        assert written[name] - len(claims) in (0, 1)


def test_exactly_one_wins_each_number_while_writers_are_killed(writers: Writers) -> None:
    chance = random.Random(3)
    names = [writers.start() for _ in range(3)]
    for _ in range(KILLS):
        writers.grow(chance.randrange(1, 12))
        time.sleep(chance.random() * 0.02)
        victim = names.pop(chance.randrange(3))
        writers.kill(victim)
        names.append(writers.start())
    writers.grow(5)
    for name in writers.processes:
        writers.kill(name)

    check_claims(writers, whole_log(writers))
    writers.log.propose(lambda state: make_record("noted", "the last one"))
    assert list((writers.folder / "control" / "orders" / "incoming").iterdir()) == []

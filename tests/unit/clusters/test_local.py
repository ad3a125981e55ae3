"""What the list of processes says of a driver that shows no mark; and the end of a driver's log."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_stream_provider.clusters import FoundDrivers, Whose, processes
from airflow_stream_provider.clusters.local import LocalCluster

FOLDER = ("--control", "file:///data/streams")
MINE = Whose("orders-2-1a2b", "0a" * 16, FOLDER)


@pytest.fixture
def starting() -> Iterator[subprocess.Popen[bytes]]:
    """A process with the arguments of a launcher."""
    words = ["-c", "import sys; sys.stdin.read()", *FOLDER, "--deployment", MINE.deployment]
    with subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE) as process:
        yield process


@pytest.mark.parametrize("hidden", [None, psutil.AccessDenied(1), PermissionError(13, "Permission denied")])
def test_a_process_that_may_be_ours_hinders_though_those_above_it_are_hidden(
    starting: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, hidden: Exception | None
) -> None:
    def parents(self: psutil.Process) -> Any:
        assert hidden is not None
        raise hidden

    if hidden is not None:
        monkeypatch.setattr(psutil.Process, "parents", parents)
    cluster = LocalCluster("local[1]")
    assert cluster.find(MINE, 0) == FoundDrivers(certain=False)
    assert cluster.find(Whose("orders-2-9999", MINE.log, FOLDER), 0) == FoundDrivers()


def test_the_end_of_a_driver_s_log_is_read_from_its_file(tmp_path: Path) -> None:
    cluster, log = LocalCluster("local[1]"), tmp_path / "a.log"
    assert cluster.log_tail(str(tmp_path)) == ""
    (tmp_path / "log").symlink_to(log)
    log.write_bytes(b"x" * 100_000 + b"\npassword=hunter2\nBoom.\xff\n")
    assert cluster.log_tail(str(tmp_path)) == "  | password=***\n  | Boom.\ufffd"
    assert cluster.log_tail("driver-20261123\0") == ""


def test_whose_a_driver_is_its_folder_and_its_processes_say(tmp_path: Path) -> None:
    cluster, folder = LocalCluster("local[1]"), tmp_path / f"{MINE.deployment}.00000001"
    assert cluster.belongs(str(folder), MINE) is None
    folder.mkdir()
    assert cluster.belongs(str(folder), MINE) is None, "it has ended"
    assert cluster.belongs(str(folder), Whose("payments-1-a", MINE.log, FOLDER)) is False
    words = ["-c", "import sys; sys.stdin.read()", f"spark.airflow.stream.log={MINE.log}"]
    words += ["--deployment", MINE.deployment]
    mark = {**os.environ, processes.MARK: str(folder)}
    with subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, env=mark):
        assert cluster.belongs(str(folder), MINE) is True
        assert cluster.belongs(str(folder), Whose(MINE.deployment, "ff" * 16, FOLDER)) is False

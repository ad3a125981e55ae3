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

from airflow_stream_provider.clusters import FoundDrivers, SubmitUnclear, Whose, processes
from airflow_stream_provider.clusters.local import LocalCluster, _take_lock
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.jobs import job

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
    assert cluster.look([str(folder)], MINE)[str(folder)].ours is None
    folder.mkdir()
    assert cluster.look([str(folder)], MINE)[str(folder)].ours is None, "it has ended"
    assert cluster.look([str(folder)], Whose("payments-1-a", MINE.log, FOLDER))[str(folder)].ours is False
    words = ["-c", "import sys; sys.stdin.read()", f"spark.airflow.stream.log={MINE.log}"]
    words += ["--deployment", MINE.deployment]
    mark = {**os.environ, processes.MARK: str(folder)}
    with subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, env=mark):
        assert cluster.look([str(folder)], MINE)[str(folder)].ours is True
        assert cluster.look([str(folder)], Whose(MINE.deployment, "ff" * 16, FOLDER))[str(folder)].ours is False


def test_a_lock_is_held_until_all_who_inherit_it_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    first = _take_lock(job(), tmp_path)
    assert [each.parent.name for each in tmp_path.glob("*/*")] == [f"airflow-stream-provider-{os.getuid()}"]
    heir = os.dup(first)  # as a driver has it
    os.close(first)
    with pytest.raises(SubmitUnclear, match="is running or just starting"):
        _take_lock(job(), tmp_path)
    os.close(_take_lock(job(deployment="orders-2-1a2b", log="0b" * 16), tmp_path))
    os.close(heir)
    os.close(_take_lock(job(), tmp_path))


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("home", "check_java"):
        monkeypatch.setattr(processes, name, lambda: tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(ClusterError, match=r"cannot be started here: Not a directory \(.*file") as refused:
        LocalCluster("local[1]").submit(job())
    assert "XDG_STATE_HOME" in refused.value.next_step

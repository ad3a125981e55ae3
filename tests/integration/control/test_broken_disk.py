"""A control folder that is full, read-only or missing is unavailable: no number is lost, no record is damaged.

Full is made real twice. A file size limit (`RLIMIT_FSIZE`) makes the kernel cut a write short for any user on any
machine. A tmpfs in a user namespace is a real file system that is really full, read-only or unmounted; it needs no
root either, but some machines forbid such namespaces: there these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from devstack.control_folder import folder_of
from tests.support.control_root import new_log
from tests.support.file_limit import short_writes
from tests.support.namespaces import COMMAND, needs_namespaces

ROOT = Path(__file__).parents[3]
NAME = "orders-1-aaaa.00000001"


def note(text: str = "") -> Record:
    return make_record("noted", "test", text=text)


def names(log: ControlLog, folder: str) -> list[str]:
    return sorted(path.name for path in (folder_of(log) / folder).iterdir())


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    made = new_log(tmp_path.as_uri(), "orders")
    made.append(note(), 0)
    return made


def test_an_incomplete_write_is_never_visible(log: ControlLog) -> None:
    with short_writes():
        with pytest.raises(ControlUnavailable):
            log.append(note("x" * 1000), 1)
        with pytest.raises(ControlUnavailable):
            log.beat(NAME, Heartbeat(message="x" * 1000))
        assert log.append(note("short enough"), 1).seq == 2
    assert (names(log, "log"), names(log, "incoming")) == ([f"{seq:020d}.json" for seq in (1, 2)], [])
    assert log.heartbeat(NAME) is None
    log.beat(NAME, Heartbeat(counter=1))
    assert (log.heartbeats(), names(log, "heartbeats")) == ({NAME: Heartbeat(counter=1)}, [f"{NAME}.json"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it may not; see the namespace below")
def test_a_folder_without_permission_is_unavailable(log: ControlLog) -> None:
    folder = folder_of(log)
    for each in ("incoming", "log", "heartbeats"):
        (folder / each).chmod(0o555)
    try:
        with pytest.raises(ControlUnavailable):
            log.append(note(), 1)
        assert log.refresh().seq == 1
    finally:
        for each in ("incoming", "log", "heartbeats"):
            (folder / each).chmod(0o755)
    assert log.append(note(), 1).seq == 2


@needs_namespaces
@pytest.mark.parametrize("trouble", ["full", "read_only", "unmounted"])
def test_on_a_file_system_of_its_own(tmp_path: Path, trouble: str) -> None:
    command = [*COMMAND, sys.executable, "-m", "tests.support.small_disk", str(tmp_path), trouble]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("well again\n")

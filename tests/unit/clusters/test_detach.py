"""A detached command: its output and its exit code end up in its folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import local

SCRIPT = Path(local.__file__).with_name("detach.py")


def run(folder: Path, *command: str) -> str:
    """Run a command detached and return its exit code."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        subprocess.run(
            [sys.executable, str(SCRIPT), str(lock), str(folder), *command],
            check=True,
            pass_fds=(lock,),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )
    finally:
        os.close(lock)
    deadline = time.monotonic() + 60
    while not (folder / "exit").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return (folder / "exit").read_text()


def test_output_and_exit_code_are_stored(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3") == "3"
    assert (tmp_path / "log").read_text().splitlines() == ["out", "err"]


def test_the_starter_returns_while_the_command_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    command = [sys.executable, str(SCRIPT), str(lock), str(tmp_path), "sh", "-c", "read line < gate"]
    subprocess.run(command, check=True, pass_fds=(lock,), timeout=60)
    os.close(lock)
    assert not (tmp_path / "exit").exists()
    (tmp_path / "gate").write_text("go\n")


@pytest.mark.parametrize("command", ["/no/such/program", "."])
def test_a_command_that_cannot_run_has_the_shells_exit_code(tmp_path: Path, command: str) -> None:
    assert run(tmp_path, command) == "127"
    assert f"{command} cannot be run" in (tmp_path / "log").read_text()

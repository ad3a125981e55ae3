"""Processes of a local driver are found by their mark and ended; others are left alone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import processes


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A submission and its process, which ignores SIGTERM and has a child of its own."""
    monkeypatch.setattr(processes, "GRACE", 0.2)
    submission = str(tmp_path / "orders-1.00000001")
    started = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; sleep 600 & echo ready; wait"],
        env={**os.environ, processes.MARK: submission},
        stdout=subprocess.PIPE,
    )
    assert started.stdout is not None
    started.stdout.readline()
    yield submission, started
    for process in processes.of(submission):
        process.kill()
    started.wait()
    started.stdout.close()


def test_a_driver_is_found_with_its_children(driver: tuple[str, subprocess.Popen[bytes]]) -> None:
    submission, started = driver
    found = processes.of(submission)
    assert started.pid in {process.pid for process in found}
    assert len(found) == 2
    assert processes.of(f"{submission}0") == []


def test_all_processes_of_a_driver_are_ended(driver: tuple[str, subprocess.Popen[bytes]]) -> None:
    submission, started = driver
    processes.end(f"{submission}0")
    assert started.poll() is None
    processes.end(submission)
    assert started.wait(60) == -signal.SIGKILL
    assert processes.of(submission) == []

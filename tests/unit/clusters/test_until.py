"""A program that outlives neither whoever has started it nor a moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from airflow_stream_provider.clusters.until import NOT_STARTED
from devstack.drivers import lives, wait_for

UNTIL = Path(__file__).parents[3] / "airflow_stream_provider" / "clusters" / "until.py"
# Says that it runs, and leaves a file if it is still there after some seconds.
PROGRAM = ["-c", 'echo "$$" >"$1"; sleep "$3"; echo late >"$2"', "program"]


def start(tmp_path: Path, until: float, parent: int | None = None, stays: int = 600) -> subprocess.Popen[bytes]:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "STREAM_PROGRAM": "/bin/sh",
        "STREAM_PARENT": str(parent or os.getpid()),
        "STREAM_UNTIL": str(until),
    }
    words = [str(tmp_path / "began"), str(tmp_path / "late"), str(stays)]
    return subprocess.Popen(["anything", *PROGRAM, *words], executable=str(UNTIL), env=environment)


def start_in_time(tmp_path: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start it with a moment that is near; a busy machine needs more time. Returns the moment, too."""
    for seconds in (2, 8, 32, 128):
        until = time.monotonic() + seconds
        process = start(tmp_path, until)
        wait_for("it to begin or to end", lambda: process.poll() is not None or (tmp_path / "began").exists())  # noqa: B023
        if process.poll() != NOT_STARTED:
            break
    return process, until


def began(tmp_path: Path) -> int:
    file = tmp_path / "began"
    wait_for("the program", lambda: file.exists() and file.read_text().strip())
    return int(file.read_text())


def test_it_is_that_program_and_ends_with_its_code(tmp_path: Path) -> None:
    process = start(tmp_path, time.monotonic() + 600, stays=0)
    assert began(tmp_path) == process.pid
    assert process.wait() == 0
    assert (tmp_path / "late").exists()


@pytest.mark.parametrize("ignored", [False, True])
def test_it_ends_at_the_moment_also_if_its_parent_ignored_that_signal(tmp_path: Path, ignored: bool) -> None:
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        process, _ = start_in_time(tmp_path)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert process.wait() == -signal.SIGALRM
    assert not (tmp_path / "late").exists()


def test_one_that_was_stopped_over_the_moment_does_nothing_more(tmp_path: Path) -> None:
    process, until = start_in_time(tmp_path)
    os.kill(process.pid, signal.SIGSTOP)
    wait_for("the moment to be over", lambda: time.monotonic() > until + 0.5)
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait() == -signal.SIGALRM
    assert not (tmp_path / "late").exists()


def test_after_the_moment_it_is_not_started(tmp_path: Path) -> None:
    assert start(tmp_path, time.monotonic() - 1).wait() == NOT_STARTED
    assert not (tmp_path / "began").exists()


def test_if_whoever_has_started_it_is_gone_it_is_not_started(tmp_path: Path) -> None:
    assert start(tmp_path, time.monotonic() + 600, parent=1).wait() == NOT_STARTED
    assert not (tmp_path / "began").exists()


def test_it_ends_with_whoever_has_started_it(tmp_path: Path) -> None:
    task = os.fork()
    if task == 0:
        start(tmp_path, time.monotonic() + 600)
        time.sleep(600)
        os._exit(0)
    program = psutil.Process(began(tmp_path))
    os.kill(task, signal.SIGKILL)
    os.waitpid(task, 0)
    wait_for("the program to end", lambda: not lives(program))
    assert not (tmp_path / "late").exists()

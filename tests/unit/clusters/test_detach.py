"""A detached command leaves output and exit code; a program with an end outlives neither its parent nor a moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from airflow_stream_provider.clusters import detach
from devstack.drivers import lives, wait_for

SCRIPT = Path(detach.__file__)


def run(folder: Path, *command: str, script: Path = SCRIPT) -> str:
    """Run a command detached and return its exit code."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        subprocess.run(
            [sys.executable, str(script), str(lock), str(folder), str(folder / "log"), *command],
            check=True,
            pass_fds=(lock,),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=600,
        )
    finally:
        os.close(lock)
    wait_for("its exit code", (folder / "exit").exists)
    return (folder / "exit").read_text()


def test_output_and_exit_code_are_stored(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3") == "3"
    assert (tmp_path / "log").read_text().splitlines() == ["out", "err"]


def test_the_starter_returns_while_the_command_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    command = [
        sys.executable,
        str(SCRIPT),
        str(lock),
        str(tmp_path),
        str(tmp_path / "log"),
        "sh",
        "-c",
        "read line < gate",
    ]
    subprocess.run(command, check=True, pass_fds=(lock,), timeout=600)
    os.close(lock)
    assert not (tmp_path / "exit").exists()
    (tmp_path / "gate").write_text("go\n")


@pytest.mark.parametrize("command", ["/no/such/program", "."])
def test_a_command_that_cannot_run_has_the_shells_exit_code(tmp_path: Path, command: str) -> None:
    assert run(tmp_path, command) == "127"
    assert f"{command} cannot be run" in (tmp_path / "log").read_text()


def test_the_log_is_cut_while_the_command_runs_and_goes_on(tmp_path: Path) -> None:
    text = SCRIPT.read_text().replace("32 * 1024 * 1024", "1000").replace("LOOK_SECONDS = 2.0", "LOOK_SECONDS = 0.05")
    quick = tmp_path / "quick.py"
    quick.write_text(text)
    # Writes until its log has been cut twice, so that the first cut's copy was replaced.
    writes = (
        "cuts=0; before=0; n=0; while [ $cuts -lt 2 ]; do n=$((n+1)); echo line $n; size=$(stat -c %s log); "
        "[ $size -lt $before ] && cuts=$((cuts+1)); before=$size; done; echo last"
    )
    assert run(tmp_path, "sh", "-c", writes, script=quick) == "0"
    assert (tmp_path / "log").read_text().endswith("last\n")
    assert "\0" not in (tmp_path / "log").read_text()  # appended: a cut file has no hole
    assert (tmp_path / "log.1").stat().st_size > 1000
    assert "line 1\n" not in (tmp_path / "log.1").read_text() + (tmp_path / "log").read_text()
    assert not (tmp_path / "log.2").exists()


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
    return subprocess.Popen(["anything", *PROGRAM, *words], executable=detach.__file__, env=environment)


def start_in_time(tmp_path: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start it with a moment that is near; a busy machine needs more time. Returns the moment, too."""
    for seconds in (2, 8, 32, 128):
        until = time.monotonic() + seconds
        process = start(tmp_path, until)
        wait_for("it to begin or to end", lambda: process.poll() is not None or (tmp_path / "began").exists())  # noqa: B023
        if process.poll() != detach.NOT_STARTED:
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
    assert start(tmp_path, time.monotonic() - 1).wait() == detach.NOT_STARTED
    assert not (tmp_path / "began").exists()


def test_if_whoever_has_started_it_is_gone_it_is_not_started(tmp_path: Path) -> None:
    assert start(tmp_path, time.monotonic() + 600, parent=1).wait() == detach.NOT_STARTED
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

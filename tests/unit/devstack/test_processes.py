import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import reaper
from devstack.drivers import wait_for
from devstack.errors import StackError
from devstack.processes import Processes, java

# Leaves its process group and session and loses its parent, as Spark's and Airflow's descendants do.
RUNAWAY = "sleep 600 & setsid sleep 600 & (setsid sleep 600 &) ; trap '' TERM; echo started; sleep 600; true"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path / "logs")
    yield started
    started.close()


def test_close_kills_all_descendants(processes: Processes, tmp_path: Path) -> None:
    process = processes.start("runaway", ["bash", "-c", RUNAWAY], env={}, folder=tmp_path)
    processes.wait_for("it to start", lambda: "started" in process.tail(), 60, process)
    wait_for("all five", lambda: len(list(reaper.marked(processes.mark))) == 5)
    process.signal(signal.SIGKILL)
    processes.close()
    assert list(reaper.marked(processes.mark)) == []


# A shell starts background jobs with SIGINT ignored, and so a test run in one; a person's terminal does not.
OWNER = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from devstack.processes import Processes
processes = Processes(Path(sys.argv[1]))
# From a thread that has ended when the owner is killed.
thread = threading.Thread(target=lambda: processes.start(
    "runaway", ["bash", "-c", sys.argv[2]], env={}, folder=Path(sys.argv[1])))
thread.start()
thread.join()
print(processes.mark, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_an_owner_that_is_killed(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), RUNAWAY],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as owner:
        assert owner.stdout is not None
        mark = owner.stdout.readline().strip()
        try:
            wait_for("all five", lambda: len(list(reaper.marked(mark))) == 5)
        finally:
            # The whole foreground group gets Ctrl-C, so the reaper must not be in it.
            os.killpg(owner.pid, number)
        try:
            owner.wait(60)
        finally:
            owner.kill()
        wait_for("all to end", lambda: not list(reaper.marked(mark)))


def fake_java(home: Path, version: str) -> None:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("version", "good"), [("17.0.15", True), ("21", True), ("11.0.2", False), ("1.8.0_401", False)]
)
def test_java_17_is_needed(version: str, good: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if good:
        assert java() == str(tmp_path / "bin" / "java")
    else:
        with pytest.raises(StackError, match=r"Java 17 or later is needed.*Install Java 17"):
            java()

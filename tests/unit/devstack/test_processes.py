import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import reaper
from devstack.drivers import wait_for
from devstack.errors import StackError
from devstack.processes import Processes, java, stop

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


def test_the_error_for_an_ended_process_has_its_last_lines_and_its_log(processes: Processes, tmp_path: Path) -> None:
    process = processes.start("broken", ["bash", "-c", "echo why; exit 3"], env={}, folder=tmp_path)
    with pytest.raises(StackError, match=r"broken ended with exit code 3(.|\n)*why(.|\n)*broken\.log"):
        processes.wait_for("the impossible", lambda: False, 60, process)


def test_an_ended_process_is_never_ready(processes: Processes, tmp_path: Path) -> None:
    process = processes.start("broken", ["false"], env={}, folder=tmp_path)
    process.popen.wait()
    with pytest.raises(StackError, match="ended"):
        processes.wait_for("a stranger's answer", lambda: True, 60, process)


def test_waiting_has_a_timeout(processes: Processes) -> None:
    with pytest.raises(StackError, match="Waited 0 s for nothing"):
        processes.wait_for("nothing", lambda: False, 0)


def test_waits_of_other_threads_end_when_the_stack_is_stopped(processes: Processes, tmp_path: Path) -> None:
    errors: list[StackError] = []

    def wait() -> None:
        try:
            processes.wait_for("nothing", lambda: False, 600)
        except StackError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    processes.close()
    thread.join(60)
    assert len(errors) == 1
    with pytest.raises(StackError, match="being stopped"):
        processes.start("late", ["true"], env={}, folder=tmp_path)


def test_variables_are_added_and_removed(processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREIGN", "1")
    processes.run(
        "env", ["bash", "-c", "echo $OURS/$FOREIGN"], env={"OURS": "2", "FOREIGN": None}, folder=tmp_path, seconds=60
    )
    assert (tmp_path / "logs" / "env.log").read_text() == "2/\n"


def test_a_process_that_ignores_sigterm_is_killed(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devstack.processes.STOP_SECONDS", 0.2)
    process = processes.start("deaf", ["bash", "-c", RUNAWAY], env={}, folder=tmp_path)
    processes.wait_for("it to start", lambda: "started" in process.tail(), 60, process)
    stop(process, None)
    assert process.popen.returncode == -signal.SIGKILL


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


def test_without_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="Install Java 17"):
        java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(StackError, match="cannot be run"):
        java()


def test_a_process_is_started_again_by_its_name(processes: Processes, tmp_path: Path) -> None:
    command = ["bash", "-c", "echo $WORD; exec sleep 600"]
    first = processes.start("sleeper", command, env={"WORD": "started"}, folder=tmp_path)
    processes.wait_for("it to start", lambda: "started" in first.tail(), 60)
    second = processes.restart("sleeper")
    processes.wait_for("it to start again", lambda: second.tail().count("started") == 2, 60)
    assert not first.alive
    assert second.alive
    assert processes.named("sleeper") is second


def test_a_name_that_was_never_started_is_refused(processes: Processes) -> None:
    with pytest.raises(StackError, match="No process 'nobody'"):
        processes.named("nobody")

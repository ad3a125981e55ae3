"""Which processes a fault hits. The processes are real; what they are is said by the words of their command lines."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos.events import Events
from chaos.targets import EXECUTOR, Targets
from devstack import reaper
from devstack.ports import free_port, listening
from devstack.processes import Process, Processes
from tests.support import story
from tests.support.control_root import new_log
from tests.support.stack_of_processes import NamedStack
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, write

LISTENS = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[NamedStack]:
    processes = Processes(tmp_path / "logs")
    yield NamedStack(processes)
    processes.close()


@pytest.fixture
def events(tmp_path: Path) -> Events:
    log = new_log((tmp_path / "control").as_uri())
    write(log, *story.PREPARED[:-1])
    log.beat(OLD, Heartbeat(application_id="app-1"))
    found = Events(log)
    found.look()
    return found


def start(stack: NamedStack, name: str, title: str = "", program: str = "sleep 600") -> Process:
    command = ["bash", "-c", f'exec -a "$0" {program}', title or name]
    process = stack.processes.start(name, command, env={}, folder=stack.processes.logs)
    stack.processes.wait_for("its title", lambda: _line(process).startswith(title or name), 60, process)
    return process


def _line(process: Process) -> str:
    return Path(f"/proc/{process.pid}/cmdline").read_text()


def targets_of(stack: NamedStack) -> Targets:
    double: Any = stack  # of a stack they need no more than this
    return Targets(double)


def pids(stack: NamedStack, events: Events, target: str) -> set[int]:
    targets = targets_of(stack)
    targets.look()
    return {process.pid for process in targets.find(target, events)}


def test_drivers_are_found_by_their_deployment(stack: NamedStack, events: Events) -> None:
    holder = start(stack, "one", f"python launcher.py --deployment {OLD_DEPLOYMENT}")
    standby = start(stack, "two", f"python launcher.py --deployment {NEW_DEPLOYMENT}")
    assert pids(stack, events, "holder") == {holder.pid}
    assert pids(stack, events, "holder_python") == {holder.pid}
    assert pids(stack, events, "standby") == {standby.pid}


def test_executors_are_found_by_the_application_of_the_holder(stack: NamedStack, events: Events) -> None:
    executor = start(stack, "one", f"java {EXECUTOR} --app-id app-1")
    start(stack, "two", f"java {EXECUTOR} --app-id app-2")
    assert pids(stack, events, "executor") == {executor.pid}
    assert targets_of(stack).incarnation("executor", events) == OLD
    assert targets_of(stack).incarnation("worker", events) == ""


def test_in_released_the_executor_is_that_of_the_driver_that_comes(stack: NamedStack, events: Events) -> None:
    start(stack, "one", f"java {EXECUTOR} --app-id app-1")
    coming = start(stack, "two", f"java {EXECUTOR} --app-id app-2")
    write(events.log, *story.RELEASED[len(story.PREPARED) - 1 :])
    events.log.beat(NEW, Heartbeat(application_id="app-2"))
    events.look()
    assert events.name == "released"
    assert pids(stack, events, "executor") == {coming.pid}
    assert targets_of(stack).incarnation("executor", events) == NEW


def test_parts_are_found_by_name_with_what_they_have_started(stack: NamedStack, events: Events) -> None:
    command = ["bash", "-c", "sleep 600 & sleep 600 & wait"]
    scheduler = stack.processes.start("airflow-scheduler", command, env={}, folder=stack.processes.logs)
    stack.processes.wait_for("its children", lambda: len(pids(stack, events, "scheduler")) == 3, 60, scheduler)
    assert pids(stack, events, "broker") == set()


def test_the_worker_is_that_of_the_holder(stack: NamedStack, events: Events) -> None:
    start(stack, "spark-worker")
    second = stack.processes.start(
        "spark-worker-2", ["bash", "-c", "sleep 600 & wait"], env={}, folder=stack.processes.logs
    )
    stack.processes.wait_for("its driver", lambda: psutil.Process(second.pid).children(), 60, second)
    (driver,) = psutil.Process(second.pid).children()
    events.log.beat(OLD, Heartbeat(jvm_pid=driver.pid))
    events.beats = {OLD: Heartbeat(jvm_pid=driver.pid)}
    assert targets_of(stack).part("worker", events) == "spark-worker-2"
    assert pids(stack, events, "worker") == {second.pid}


def test_processes_of_others_are_left_alone(stack: NamedStack, events: Events, tmp_path: Path) -> None:
    other = Processes(tmp_path / "others")
    try:
        start(NamedStack(other), "one", f"python launcher.py --deployment {OLD_DEPLOYMENT}")
        assert pids(stack, events, "holder") == set()
    finally:
        other.close()


def test_a_child_that_only_becomes_a_process_of_the_stack_is_found_then(stack: NamedStack, events: Events) -> None:
    # As between fork and exec, when it still has the environment of its parent.
    mark = f"{reaper.VARIABLE}={stack.processes.mark}"
    script = f'read line; exec env {mark} bash -c \'exec -a "$0" sleep 600\' "driver {OLD_DEPLOYMENT}"'
    targets = targets_of(stack)
    with subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE) as child:
        try:
            targets.look()
            assert targets.find("holder", events) == []
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
            deadline = time.monotonic() + 60
            while not targets.find("holder", events):
                assert time.monotonic() < deadline
                targets.look()
        finally:
            child.kill()


def test_a_broker_serves_when_it_listens_for_clients_and_other_parts_when_they_listen_at_all(stack: NamedStack) -> None:
    targets, stack.broker.port = targets_of(stack), free_port()

    def serves(name: str, port: int) -> bool:
        process = stack.processes.start(
            name, [sys.executable, "-c", LISTENS, str(port)], env={}, folder=stack.processes.logs
        )
        stack.processes.wait_for("its port", lambda: listening(port), 60, process)
        return targets.serves(name)

    assert serves("spark-master", free_port())
    assert not serves("kafka", free_port())
    assert serves("kafka", stack.broker.port)


def test_the_storage_is_a_process_that_is_none_of_the_stack(stack: NamedStack, events: Events, tmp_path: Path) -> None:
    whole: Any = stack
    with subprocess.Popen(["sleep", "600"]) as server:
        targets = Targets(whole, psutil.Process(server.pid))
        targets.look()
        assert [process.pid for process in targets.find("storage", events)] == [server.pid]
        assert (targets.part("storage", events), targets.incarnation("storage", events)) == ("", "")
        server.kill()
    assert targets.find("storage", events) == []
    assert Targets(whole).find("storage", events) == []

"""The lease watchdog against real processes: a frozen, stuck or half dead driver must end, all of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_stream_provider.runtime.lease_watchdog import HALT_CODE
from devstack.drivers import lives, wait_for

REPOSITORY = Path(__file__).parents[3]
LEASE = 12.0  # long enough for a starved machine to renew in time
DEADLINE = 120.0

DRIVER = """
import json, os, sys, time
from py4j.protocol import Py4JError
from pyspark import SparkContext
SparkContext._ensure_initialized()
from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.lease_watchdog import CLOCK, LeaseWatchdog, end_with_jvm
from airflow_stream_provider.runtime.ports import LeaseOver

lease, mode = float(sys.argv[1]), sys.argv[2]
if mode != "late":
    end_with_jvm()
switch = LeaseWatchdog(lease)
armed = time.monotonic()
name = jvm.jvm().java.lang.management.ManagementFactory.getRuntimeMXBean().getName()
print(json.dumps({"python": os.getpid(), "jvm": int(name.split("@")[0])}), flush=True)
if mode == "broken":
    switch._ticks.cancel(True)  # as after an error in it
while mode == "renew" or time.monotonic() < armed + lease + 1 and mode in ("disarm", "expire", "broken"):
    sent = CLOCK.monotonic()
    time.sleep(0.1)
    try:
        switch.postpone(sent)
    except (LeaseOver, Py4JError, OSError):  # woken before the JVM, or told of its end by the socket: wait for ours
        time.sleep(1000)
if mode == "disarm":
    switch.disarm()
    time.sleep(lease + 2)
    print("alive", jvm.jvm().java.lang.System.nanoTime() > 0, flush=True)
elif mode in ("time", "monotonic"):  # this clock of the machine has gone on by a lease: the machine slept
    clock, ahead = getattr(CLOCK, mode), lease + 1
    setattr(CLOCK, mode, lambda: clock() + ahead)
    try:
        switch.postpone(time.clock_gettime(time.CLOCK_BOOTTIME))
    except LeaseOver:
        print("too late", flush=True)
elif mode == "wall":  # in the JVM: its own wall clock is past what it was told
    ends = switch._ends
    switch._ends = lambda boot: ends(boot)._replace(wall=time.time() - 0.1)
    switch.postpone(CLOCK.monotonic())
    time.sleep(1000)
elif mode == "late":
    time.sleep(lease + 0.1)
    try:
        switch.postpone(CLOCK.monotonic())
    except LeaseOver:
        print("too late", flush=True)
else:
    time.sleep(1000)
"""


class Driver:
    """Python and the JVM of a driver; `first` is the one that started the other."""

    def __init__(self, first: subprocess.Popen[str]) -> None:
        self.first = first
        assert first.stdout is not None
        pids = json.loads(first.stdout.readline())
        self.python, self.jvm = psutil.Process(pids["python"]), psutil.Process(pids["jvm"])

    def line(self) -> str:
        assert self.first.stdout is not None
        return self.first.stdout.readline().strip()

    def await_end(self) -> int:
        """Wait until both processes are gone and return the exit code of the one that started the other."""
        code = self.first.wait(DEADLINE)
        wait_for("the end of both", lambda: not lives(self.python) and not lives(self.jvm), DEADLINE)
        return code


@pytest.fixture(params=["spark-submit", "python"])
def how(request: pytest.FixtureRequest) -> str:
    """Which process starts the other: the JVM starts Python under spark-submit, Python the JVM otherwise."""
    return str(request.param)


class Starter:
    """Starts drivers, and leaves none."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "driver.py"
        self.script.write_text(DRIVER)
        self.log = open(folder / "driver.log", "w")  # noqa: SIM115
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self, how: str, mode: str) -> Driver:
        bin = Path(sys.executable).parent
        submit = [str(bin / "spark-submit"), "--driver-memory", "512m"]
        command = submit if how == "spark-submit" else [sys.executable]
        process = subprocess.Popen(
            [*command, str(self.script), str(LEASE), mode],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return Driver(process)

    def end(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.log.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    starter.end()


def test_frozen_python_halts_the_jvm_and_ends_itself_when_it_is_woken(start: Starter, how: str) -> None:
    driver = start(how, "renew")
    driver.python.suspend()
    wait_for("the JVM's halt", lambda: not lives(driver.jvm), DEADLINE)
    driver.python.resume()
    assert driver.await_end() == HALT_CODE


@pytest.mark.system
def test_a_whole_driver_frozen_for_longer_than_its_lease_ends_when_it_is_woken(start: Starter, how: str) -> None:
    driver = start(how, "renew")
    for process in (driver.jvm, driver.python):
        process.suspend()
    with pytest.raises(subprocess.TimeoutExpired):
        driver.first.wait(LEASE + 2)
    for process in (driver.python, driver.jvm):  # Python first: it gets every chance to renew
        process.resume()
    assert driver.await_end() == HALT_CODE


def test_python_ends_with_a_killed_jvm(start: Starter, how: str) -> None:
    driver = start(how, "renew")
    driver.jvm.kill()
    assert driver.await_end() == (HALT_CODE if how == "python" else -signal.SIGKILL)


@pytest.mark.parametrize("mode", ["expire", pytest.param("broken", marks=pytest.mark.system)])
def test_a_driver_that_no_longer_renews_is_halted(start: Starter, mode: str) -> None:
    """Also one whose timer an error has ended before."""
    assert start("spark-submit", mode).await_end() == HALT_CODE


@pytest.mark.system
def test_a_disarmed_driver_lives_on_and_ends_by_itself(start: Starter) -> None:
    driver = start("spark-submit", "disarm")
    assert driver.line() == "alive True"
    assert driver.await_end() == 0


@pytest.mark.parametrize("mode", ["late", *(pytest.param(m, marks=pytest.mark.system) for m in ("time", "monotonic"))])
def test_a_renewal_after_the_lease_is_refused_by_whichever_clock(start: Starter, mode: str) -> None:
    driver = start("python", mode)
    assert driver.line() == "too late"


def test_a_wall_clock_that_has_gone_on_for_a_lease_halts_the_jvm(start: Starter) -> None:
    """As it has on a machine that was suspended, whose monotonic clocks have not."""
    assert start("spark-submit", "wall").await_end() == HALT_CODE

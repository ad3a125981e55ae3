"""Whether SIGTERM has come, with any handler that a script may set."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_stream_provider.runtime.script import Sigterm


@pytest.fixture
def sigterm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sigterm]:
    """Installed; what it changes in this process is put back."""
    monkeypatch.setattr(signal, "signal", signal.signal)
    before = signal.getsignal(signal.SIGTERM)
    found = Sigterm()
    found.install()
    yield found
    monkeypatch.undo()
    signal.signal(signal.SIGTERM, before)


def test_it_is_noted_before_the_handler_is_called(sigterm: Sigterm) -> None:
    seen: list[Any] = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append((number, sigterm.came)))
    assert not sigterm.came
    os.kill(os.getpid(), signal.SIGTERM)
    assert (seen, sigterm.came) == ([(signal.SIGTERM, True)], True)


def test_on_yarn_python_goes_on_without_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent to all processes of a container; the JVM's hook needs this one to release the stream."""
    monkeypatch.setenv("CONTAINER_ID", "container_1_0001_01_000001")
    monkeypatch.setattr(signal, "signal", signal.signal)
    before, found = signal.getsignal(signal.SIGTERM), Sigterm()
    found.install()
    os.kill(os.getpid(), signal.SIGTERM)
    assert found.came
    monkeypatch.undo()
    signal.signal(signal.SIGTERM, before)


def test_a_process_that_is_about_to_end_does_not_call_the_handler_any_more(sigterm: Sigterm) -> None:
    seen: list[Any] = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    sigterm.leaving = True
    os.kill(os.getpid(), signal.SIGTERM)
    assert (seen, sigterm.came) == ([], True)


def test_other_signals_and_no_handler_are_as_ever(sigterm: Sigterm) -> None:
    seen: list[Any] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGTERM)
    assert (seen, sigterm.came) == ([signal.SIGUSR1], False)


ON_YARN = """
import multiprocessing, os, signal, sys, time
from airflow_stream_provider.runtime.script import Sigterm
Sigterm().install()
context = multiprocessing.get_context("fork")
reads, writes = os.pipe()

def work():
    os.write(writes, b"!")
    time.sleep(1000)
"""


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            "child = context.Process(target=work); child.start(); os.read(reads, 1)\n"
            "child.terminate(); child.join(60); print(child.exitcode); child.kill()",
            "-15",
        ),
        ("with context.Pool(4) as pool: print(pool.map(abs, [-1, 2]))", "[1, 2]"),
        (
            "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(3))\n"
            "child = context.Process(target=work); child.start(); os.read(reads, 1)\n"
            "child.terminate(); child.join(60); print(child.exitcode); child.kill()",
            "3",
        ),
    ],
    ids=["a process", "a pool", "a handler of the script's own"],
)
def test_on_yarn_what_the_script_forks_can_be_terminated(script: str, says: str) -> None:
    """Found by a review: a handler that does nothing is inherited, and `with Pool()` never ended."""
    environment = {**os.environ, "CONTAINER_ID": "container_1_0001_01_000001"}
    run = [sys.executable, "-c", ON_YARN + script]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.returncode) == (f"{says}\n", 0), done.stderr

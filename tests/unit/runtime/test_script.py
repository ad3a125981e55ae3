"""How a script ends, and what is said of it; for what it does with queries see integration/runtime/test_scripts.py."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.script import run_script, run_to_end
from tests.support.real_run import real_run, writer


class Failed(BaseException):
    """The script failed; in a driver, the thread then waits for the process's end."""


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Put back what the script's start changes in this process; returns the codes that it would have ended with."""
    codes: list[int] = []
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    monkeypatch.setattr(signal, "signal", signal.signal)
    before = signal.getsignal(signal.SIGTERM)
    yield codes
    monkeypatch.undo()
    signal.signal(signal.SIGTERM, before)


def run(folder: Path, text: str, *arguments: str, gate: Gate | None = None) -> tuple[str, BaseException] | None:
    """Run a script and return how it failed, if it did."""
    found: list[tuple[str, BaseException]] = []
    (folder / "app.py").write_text(text)
    (folder / "beside.py").write_text("value = 7\n")

    def fails(reason: str, error: BaseException) -> None:
        found.append((reason, error))
        raise Failed

    try:
        run_script(folder / "app.py", arguments, gate or started(), fails)
    except Failed:
        return found[0]
    return None


def started() -> Gate:
    """A gate that knows a query."""
    gate = Gate()
    gate._register(writer("/data/a", "a"), real_run)
    return gate


def test_it_runs_as_python_would_run_it(tmp_path: Path) -> None:
    text = "import sys, beside\nassert __name__ == '__main__'\nassert sys.argv[1:] == ['x', str(beside.value)]\n"
    assert run(tmp_path, text, "x", "7") is None


@pytest.mark.parametrize(
    ("text", "reason", "error"),
    [
        ("raise ValueError('no topic')", "The script failed", "ValueError('no topic')"),
        ("import sys\nsys.exit(3)", "The script left with code 3", "SystemExit(3)"),
        (
            "import sys\ntry:\n  raise ValueError('no topic')\nexcept ValueError:\n  sys.exit(3)",
            "The script left with code 3",
            "ValueError('no topic')",
        ),
        ("import os\nos._exit(9)", "The script ended its process with os._exit(9)", "SystemExit(9)"),
    ],
)
def test_a_script_that_fails_says_why(tmp_path: Path, text: str, reason: str, error: str) -> None:
    found = run(tmp_path, text)
    assert found is not None
    assert (found[0], repr(found[1])) == (reason, error)


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        (
            "import socket\na, b = socket.socket(), socket.socket()\na.bind(('127.0.0.1', 0))\nb.bind(a.getsockname())",
            "OSError: [Errno 98] Address already in use. ",
            "the running driver of this stream may be it",
        ),
        (
            "open('conf/config.yaml')",
            "FileNotFoundError: [Errno 2] No such file or directory: 'conf/config.yaml'. ",
            'Path(__file__).with_name("config.yaml")',
        ),
        (
            "from concurrent.futures.process import BrokenProcessPool\nraise BrokenProcessPool('It died.')",
            "BrokenProcessPool: It died. ",
            "is in the driver's log",
        ),
        ("open('/etc/there-is-no.yaml')", "", ""),
    ],
)
def test_errors_that_say_too_little_come_with_what_to_do(tmp_path: Path, text: str, error: str, hint: str) -> None:
    class Agent:
        reason = ""

        def script_failed(self, reason: str, error: BaseException) -> None:
            self.reason = reason
            raise Failed

        def script_finished(self) -> None:
            raise AssertionError("it failed")

    agent = Agent()
    (tmp_path / "app.py").write_text(text)
    with pytest.raises(Failed):
        run_to_end(tmp_path / "app.py", [], started(), cast(Any, agent), lambda: None)
    assert agent.reason.startswith(f"The script failed: {error}" if error else "The script failed")
    assert hint in agent.reason
    assert bool(hint) is (len(agent.reason) > len("The script failed"))


@pytest.mark.parametrize("text", ["", "import sys\nsys.exit()", "import sys\nsys.exit(0)"])
def test_a_script_that_ends_well_is_no_failure(tmp_path: Path, text: str) -> None:
    assert run(tmp_path, text) is None


def test_a_script_without_a_query_says_which_error_ended_its_thread(tmp_path: Path) -> None:
    text = "import threading\nthreading.Thread(target=lambda: 1 / 0).start()"
    found = run(tmp_path, text, gate=Gate())
    assert found is not None
    assert (found[0], repr(found[1])) == (
        "The script ended without starting a query",
        "ZeroDivisionError('division by zero')",
    )


def test_its_threads_are_waited_for_but_not_daemons_and_idle_pools(tmp_path: Path) -> None:
    text = f"""
import threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

def late():
    time.sleep(0.5)
    Path({str(tmp_path)!r}, "late").touch()

threading.Thread(target=threading.Event().wait, daemon=True).start()
pool = ThreadPoolExecutor(1)
pool.submit(late)
"""
    assert run(tmp_path, text) is None
    assert (tmp_path / "late").exists()


def test_the_runtime_itself_may_leave(tmp_path: Path, process: list[int]) -> None:
    run(tmp_path, "")
    own = threading.Thread(target=os._exit, args=[50], name="airflow-stream-agent")
    own.start()
    own.join(30)
    assert process == [50]


class Agent:
    """Notes how the script ends; like a driver's agent it does not return from what ends the process."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def terminate(self) -> None:
        self.did.append("terminate")

    def script_failed(self, reason: str, error: BaseException) -> None:
        self.did.append(reason)
        raise Failed

    def script_finished(self) -> None:
        terminated = "terminate" in self.did
        self.did.append("wait for the release" if terminated else "finished")
        if terminated:
            raise Failed


def run_whole(folder: Path, text: str, *, holds: bool = True) -> list[str]:
    """Run a script that knows its one query as `query`; return what the agent was told."""
    gate, agent = started(), Agent()
    if holds:
        gate.hold(lambda query: None)
    (folder / "app.py").write_text(text)
    known: Any = SimpleNamespace(query=gate.queries[0])
    with contextlib.suppress(Failed), mock.patch.dict(sys.modules, the_query=known):
        run_to_end(folder / "app.py", [], gate, cast(Any, agent), agent.terminate)
    return agent.did


HANDLER = """
import os, signal, sys, threading
from the_query import query

def handle(number, frame):
    {handle}

signal.signal(signal.SIGTERM, handle)
{then}
"""
SENT = "os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize(
    ("handle", "then"),
    [
        ("query.stop()", SENT),
        ("query.stop(); sys.exit(0)", SENT),
        ("query.stop(); sys.exit(143)", SENT),
        ("query.stop(); os._exit(0)", SENT),
        ("global over; over = True", f"over = False\n{SENT}\nassert over"),
        ("sys.exit(0)", f"threading.Timer(1, lambda: {SENT}).start()"),
        ("query.stop()", f"timer = threading.Timer(1, lambda: {SENT})\ntimer.daemon = True\ntimer.start()"),
        ("raise TimeoutError", f"timer = threading.Timer(1, lambda: {SENT})\ntimer.daemon = True\ntimer.start()"),
    ],
)
def test_a_script_that_ends_by_sigterm_has_neither_finished_nor_failed(
    handle: str, then: str, holds: bool, tmp_path: Path
) -> None:
    """Found by a review: a host that shut down read as a stream whose work was done, and nobody brought it back."""
    did = run_whole(tmp_path, HANDLER.format(handle=handle, then=then), holds=holds)
    assert did[:2] == ["terminate", "wait for the release"]


@pytest.mark.parametrize("holds", [True, False])
def test_a_script_that_ends_by_itself_has_finished_if_it_held(holds: bool, tmp_path: Path) -> None:
    did = run_whole(tmp_path, HANDLER.format(handle="raise ValueError", then="query.stop()"), holds=holds)
    failed = "The script ended its queries while this driver did not hold the stream"
    assert did == (["finished"] if holds else [failed])


# What a driver is to its script, in a process of its own: whoever is asked what, says it with its process.
DRIVER = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.script import run_to_end
from tests.support.real_run import real_run, writer

driver, leave, gate = os.getpid(), os._exit, Gate()

def says(what):
    print("driver" if os.getpid() == driver else "child", what, flush=True)

class Agent:
    def script_failed(self, reason, error):
        says(reason)
        leave(1)

    def script_finished(self):
        says("finished")
        leave(0)

def start():
    gate._register(writer("/data/a", "a"), real_run)
    return gate.queries[0]

gate.hold(lambda query: None)
sys.modules["the_driver"] = SimpleNamespace(start=start)
run_to_end(Path(sys.argv[1]), [], gate, Agent(), lambda: None)
"""
FORKS = """
import os, sys
from the_driver import start

def fork():
    if os.fork() == 0:
        {end}
        return True
    return False

query = None
for when in ("before", "after"):
    if fork():
        break
    _, status = os.wait()
    print(when, "start:", os.waitstatus_to_exitcode(status), flush=True)
    query = query or start()
else:
    query.stop()
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("pass", 0),
        ("sys.exit()", 0),
        ("sys.exit(1)", 1),
        ("sys.exit('no')", 1),
        ("raise ValueError('no')", 1),
        ("os._exit(7)", 7),
    ],
)
def test_a_process_that_the_script_forks_ends_as_ever(tmp_path: Path, end: str, code: int) -> None:
    """Found by a review: it went on in the launcher, and its parent waited for it for ever."""
    (tmp_path / "app.py").write_text(FORKS.format(end=end))
    run = [sys.executable, "-c", DRIVER, str(tmp_path / "app.py")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.returncode) == (
        f"before start: {code}\nafter start: {code}\ndriver finished\n",
        0,
    ), done.stderr
    assert ("no" in done.stderr) == ("no" in end)

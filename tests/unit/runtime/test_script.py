"""How a script ends, and what is said of it; for what it does with queries see integration/runtime/test_scripts.py."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.script import run_script
from tests.support.real_run import real_run, writer


class Failed(BaseException):
    """The script failed; in a driver, the thread then waits for the process's end."""


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Put back what the script's start changes in this process; returns the codes that it would have ended with."""
    codes: list[int] = []
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    return codes


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

"""A detached command: its output and its exit code end up in its folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import local
from devstack.drivers import wait_for

SCRIPT = Path(local.__file__).with_name("detach.py")


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

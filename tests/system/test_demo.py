"""The demo as a person runs it, and stops it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from devstack.airflow_api import AirflowApi
from devstack.drivers import wait_for
from tests.support.demo_report import check_report

ROOT = Path(__file__).parents[2]
KEPT = re.compile(r"Airflow runs at\s(\S+),\suser\s(\S+),\spassword\s(\S+)\.\s+Ctrl-C")


def start(report: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "demo", "--report", str(report), *options]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=(report / "output").open("w"), stderr=subprocess.STDOUT, text=True
    )


def left_behind(report: Path) -> Iterator[str]:
    """Every process whose environment leads into this folder, which all of the stack's do."""
    for process in psutil.process_iter():
        try:
            if any(str(report) in value for value in process.environ().values()):
                yield " ".join(process.cmdline())
        except psutil.Error:
            continue


def test_the_story_and_what_is_kept(tmp_path: Path) -> None:
    demo = start(tmp_path, "--keep")
    output = tmp_path / "output"
    wait_for("the end of the story", lambda: demo.poll() is not None or KEPT.search(output.read_text()), 1800)
    kept = KEPT.search(output.read_text())
    assert kept, output.read_text()
    AirflowApi(*kept.groups()).wait_for_dag("orders__upgrade")
    demo.send_signal(signal.SIGINT)
    assert demo.wait(120) == 0, output.read_text()
    check_report(tmp_path, "adopted")
    assert list(left_behind(tmp_path)) == []


@pytest.mark.parametrize(
    "moment", ["starting Kafka", "Bring the stream's driver up beside the old job", "Hand the stream over"]
)
def test_ctrl_c_leaves_no_process_behind(moment: str, tmp_path: Path) -> None:
    demo = start(tmp_path)
    wait_for(f"the demo to say {moment!r}", lambda: moment in (tmp_path / "output").read_text(), 900)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(120) == 130
    assert list(left_behind(tmp_path)) == []

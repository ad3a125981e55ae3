from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos.store_faults import ControlFolder
from tests.support.control_root import new_log
from tests.support.namespaces import COMMAND, needs_fuse

ROOT = Path(__file__).parents[3]


@needs_fuse
@pytest.mark.parametrize("kind", ["hang", "full", "read_only", "away"])
def test_it_fails_for_all_but_the_second_path_and_is_well_again(tmp_path: Path, kind: str) -> None:
    command = [*COMMAND, sys.executable, "-m", "tests.support.failing_control", str(tmp_path), kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("well again\n")


def test_a_torn_heartbeat_is_unknown_until_the_next_one(tmp_path: Path) -> None:
    log = new_log((tmp_path / "control").as_uri())
    control = ControlFolder(tmp_path / "control", tmp_path / "control", tmp_path / "elsewhere")
    log.beat("orders-1.00000001", Heartbeat(counter=1))
    log.beat("orders-2.00000002", Heartbeat(counter=1))
    control.tear_heartbeats("orders-1.00000001")
    control.tear_heartbeats("orders-1.00000001")
    assert set(log.heartbeats()) == {"orders-2.00000002"}
    log.beat("orders-1.00000001", Heartbeat(counter=2))
    assert set(log.heartbeats()) == {"orders-1.00000001", "orders-2.00000002"}

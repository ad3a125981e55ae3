from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos.store_faults import OLDER_BY, Checkpoints, ControlFolder
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


def a_checkpoint(folder: Path, batches: int) -> Path:
    for log in ("offsets", "commits"):
        (folder / log).mkdir(parents=True)
        for number in range(batches):
            (folder / log / str(number)).write_text(f"{log} of {number}")
    (folder / "metadata").write_text("its id")
    return folder


def committed(folder: Path) -> set[str]:
    return {path.name for path in (folder / "commits").iterdir()}


def test_a_checkpoint_is_away_and_is_put_back_with_what_was_written_since(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path / "enrich", 5)
    checkpoints = Checkpoints([folder, tmp_path / "not there yet"], tmp_path / "aside")
    checkpoints.fail("checkpoint_away")
    assert not folder.exists()
    (folder / "commits").mkdir(parents=True)
    (folder / "commits" / "5").write_text("commits of 5")
    (folder / "metadata").write_text("another id")
    checkpoints.heal()
    assert committed(folder) == {"0", "1", "2", "3", "4", "5"}
    assert (folder / "metadata").read_text() == "its id"
    checkpoints.heal()
    assert [path.name for path in tmp_path.iterdir() if path.name != "aside"] == ["enrich"]


def test_an_older_copy_lacks_the_last_batches_and_the_real_one_comes_back(tmp_path: Path) -> None:
    folder = a_checkpoint(tmp_path / "enrich", 5)
    checkpoints = Checkpoints([folder], tmp_path / "aside")
    checkpoints.fail("checkpoint_older")
    assert len(committed(folder)) == 5 - OLDER_BY
    assert (folder / "metadata").read_text() == "its id"
    checkpoints.heal()
    assert len(committed(folder)) == 5
    assert list((tmp_path / "aside").iterdir()) == []

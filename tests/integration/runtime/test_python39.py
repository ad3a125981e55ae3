"""The driver's part on Python 3.9, the oldest Python of a cluster: its modules, its files, and two whole drivers."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from airflow_stream_provider.checkpoint import read
from airflow_stream_provider.control.releases import RUNTIME_ZIP
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from devstack import checkpoint_trees as trees
from devstack.control_folder import folder_of, publish
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support import driver_part, story
from tests.support.control_root import new_log
from tests.support.orders_files import Orders
from tests.support.python39 import VERSION, python39

ROOT = Path(__file__).parents[3]
APP = ROOT / "tests" / "support" / "app_orders_files.py"
# Spark 4.1 and later need Python 3.10 themselves.
SPARK_RUNS_ON_IT = SpecifierSet(metadata("pyspark")["Requires-Python"]).contains(VERSION)


def pyspark_zips() -> list[str]:
    """Spark puts these on a driver's path."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    zips = sorted(str(path) for path in (Path(found.origin).parent / "python" / "lib").glob("*.zip"))
    assert len(zips) == 2, zips
    return zips


@pytest.mark.skipif(not SPARK_RUNS_ON_IT, reason="the gate imports pyspark")
def test_a_script_that_does_not_hold_changes_nothing_of_its_stream(tmp_path: Path) -> None:
    """Python 3.9 raises the audit events that later ones do."""
    log = new_log((tmp_path / "control").as_uri(), "orders")
    release = publish(folder_of(log), version="1", application=APP)
    files = tmp_path / "files"
    files.mkdir()
    found = []
    for python in (python39(), Path(sys.executable)):
        (files / python.name).mkdir()
        done = subprocess.run(
            [str(python), "-B", str(ROOT / "tests" / "support" / "guarded_calls.py"), str(files / python.name)],
            env={"PYTHONPATH": ":".join([str(release.folder(folder_of(log)) / RUNTIME_ZIP), *pyspark_zips()])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append({name for name, error in json.loads(done.stdout)["found"].items() if error})
    assert found[0] == found[1]
    assert len(found[0]) > 20


def test_modules_control_log_and_checkpoint(tmp_path: Path) -> None:
    """What Python 3.9 writes and reads is what the Python of Airflow reads."""
    python = python39()
    control = (tmp_path / "control").as_uri()
    log = new_log(control, "orders")
    release = publish(folder_of(log), version="1", application=APP)
    checkpoint = trees.new(tmp_path / "checkpoint")
    trees.plan(checkpoint, 7, trees.kafka(orders={0: 10, 1: 20}))
    trees.commit(checkpoint, 7, at=1000.5)
    trees.plan(checkpoint, 8, trees.kafka(orders={0: 11, 1: 21}))
    trees.operator(checkpoint, 0, "stateStoreSave", 2)

    done = subprocess.run(
        # Isolated, every warning an error, no bytecode left beside pyspark.
        [str(python), *("-I", "-W", "error", "-B"), driver_part.__file__]
        + [str(release.folder(folder_of(log)) / RUNTIME_ZIP), control, str(checkpoint)]
        + (pyspark_zips() if SPARK_RUNS_ON_IT else []),
        input=b"".join(record.to_json() + b"\n" for record in story.HANDED_OVER),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["python"] == [int(part) for part in VERSION.split(".")]
    assert found["state"] == repr(log.refresh())
    assert len(log.records()) == len(story.HANDED_OVER)
    assert log.heartbeat("orders-1.0000000a") == Heartbeat(counter=1)
    assert found["checkpoint"] == repr(read(checkpoint))
    travels = [*("lifecycle", "control", "checkpoint"), *(["runtime"] if SPARK_RUNS_ON_IT else [])]
    sources = [path for name in travels for path in (ROOT / "airflow_stream_provider" / name).rglob("*.py")]
    assert len(found["imported"]) == len(sources) + 1  # and the package itself


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    for driver in found.drivers:  # shown when the test fails
        print(f"----- {driver.deployment}\n{driver.log()[-6000:]}")


@pytest.mark.system
@pytest.mark.skipif(not SPARK_RUNS_ON_IT, reason="this Spark needs a later Python itself")
def test_two_drivers_hand_over(stream: HandRunStream, tmp_path: Path) -> None:
    python = python39()
    stream.spark_conf["spark.pyspark.python"] = str(python)
    orders = Orders(tmp_path)
    orders.flow()
    try:
        drivers = [stream.deploy(name, APP, str(orders.root)) for name in ("orders-1", "orders-2")]
        stream.hand_over(stream.standby("orders-1"))
        assert [Path(driver.python().exe()) for driver in drivers] == [python, python]
        wait_for("the first orders", lambda: len(orders.delivered()) > 50)
        stream.hand_over(stream.standby("orders-2"))
    finally:
        orders.dry()
    orders.check()
    assert [r["boundary"] for r in stream.records("released")] == ["completed"]

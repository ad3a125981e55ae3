"""Drivers on this machine: what is special about a local cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import stat
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from airflow_stream_provider.clusters import (
    ClusterConnection,
    DriverState,
    FoundDrivers,
    SubmitUnclear,
    Whose,
    open_cluster,
    processes,
    status_of,
)
from airflow_stream_provider.clusters.processes import command
from airflow_stream_provider.control.releases import LAUNCHER
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import wait_for
from tests.support.places import Place


def python_of(submission: str) -> psutil.Process:
    """Wait for the Python process that runs the launcher."""

    def running() -> psutil.Process | None:
        return next((p for p in processes.of(submission) if any(w.endswith(LAUNCHER) for w in command(p)[1:2])), None)

    found = wait_for("the driver's Python", running)
    assert isinstance(found, psutil.Process)
    return found


def test_a_running_deployment_cannot_be_started_again(here: Place) -> None:
    job, since = here.job(), time.time()
    submission = here.cluster.submit(job)
    with pytest.raises(SubmitUnclear, match="is running or just starting on this machine"):
        here.cluster.submit(job)
    assert here.cluster.find(job.whose, since) == FoundDrivers(alive=(submission,))
    here.end(submission, job)
    again = here.cluster.submit(job)
    assert again != submission


def test_the_driver_gets_the_allowlist_and_what_the_stream_declares(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AWS_SECRET_ACCESS_KEY", "VAULT_TOKEN", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("TZ", "UTC")
    job = dataclasses.replace(here.job(), environment={"REGION": "eu"})
    submission = here.cluster.submit(job)
    python_of(submission)
    seen = 0
    for process in processes.of(submission):
        with contextlib.suppress(psutil.NoSuchProcess):  # Hadoop starts children that end at once, such as chmod
            found = process.environ()
            assert "hunter2" not in found.values()
            assert {found["REGION"], found["TZ"], found["SPARK_LOCAL_IP"]} == {"eu", "UTC", "127.0.0.1"}
            seen += 1
    assert seen > 1, "the JVM and its Python"


def test_the_log_is_outside_the_control_folder_and_old_ones_are_removed(here: Place) -> None:
    logs = here.root / "state" / "airflow-stream-provider" / "drivers" / "orders"
    first = here.cluster.submit(here.job("0"))
    for number in range(30):
        old = logs / f"old-{number}.log"
        old.write_text("")
        os.utime(old, (number, number))
    (logs / "old-0.log.1").write_text("")
    job = here.job("0")
    second = here.cluster.submit(job)
    log = Path(here.cluster.look([second])[second].links["driver log"])
    assert log == logs / f"{Path(second).name}.log"
    assert (Path(second) / "log").resolve() == log.resolve()
    wait_for("the driver's end", lambda: status_of(here.cluster, second).terminal)
    assert log.stat().st_size > 0
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert Path(here.cluster.look([first])[first].links["driver log"]).exists()
    assert sorted(path.name for path in logs.glob("old-*"))[0] != "old-0.log"
    assert not (logs / "old-0.log.1").exists()
    assert 19 <= len(list(logs.glob("old-*.log"))) <= 20


def test_without_a_control_folder_drivers_are_kept_in_one_of_the_users_own(here: Place) -> None:
    job = dataclasses.replace(here.job(), stream_folder="")
    submission = here.cluster.submit(job)
    home = here.root / "state" / "airflow-stream-provider" / "submissions" / f"orders@{socket.gethostname()}"
    assert Path(submission).parent == home
    assert stat.S_IMODE(home.parents[1].stat().st_mode) == 0o700
    python_of(submission)
    assert status_of(here.cluster, submission) is DriverState.RUNNING
    with pytest.raises(SubmitUnclear):
        here.cluster.submit(job)
    here.cluster.kill(submission)
    assert here.cluster.remains(submission, job.whose).gone


def test_a_driver_in_such_a_folder_of_another_machine_is_not_taken_for_gone(here: Place) -> None:
    submission = "/home/airflow/airflow-stream-provider/submissions/orders@elsewhere/orders-1-aaaa.00000001"
    assert status_of(here.cluster, submission) is DriverState.UNKNOWN
    assert not here.cluster.remains(submission, Whose("orders-1-aaaa")).gone
    with pytest.raises(ClusterError, match="runs on elsewhere"):
        here.cluster.kill(submission)


def test_python_ends_when_detach_or_the_jvm_is_killed(here: Place) -> None:
    job = here.job()
    submission = here.cluster.submit(job)
    python_of(submission)
    waiting = next(p for p in processes.of(submission) if any("detach.py" in word for word in command(p)))
    jvm = next(p for p in processes.of(submission) if command(p)[:1] and command(p)[0].endswith("java"))
    waiting.kill()
    assert status_of(here.cluster, submission) is DriverState.RUNNING
    with pytest.raises(SubmitUnclear):
        here.cluster.submit(job)
    jvm.kill()
    wait_for("every process to be gone", lambda: here.cluster.remains(submission, job.whose).gone)
    # No process was left to store the exit code, and a vanished driver is never a success.
    assert status_of(here.cluster, submission) is DriverState.LOST


def test_a_driver_of_another_machine_is_not_touched(here: Place) -> None:
    job = here.job()
    submission = here.cluster.submit(job)
    host = Path(submission, "host")
    name = host.read_text()
    host.write_text("elsewhere")
    assert status_of(here.cluster, submission) is DriverState.UNKNOWN
    assert not here.cluster.remains(submission, job.whose).gone
    with pytest.raises(ClusterError, match="runs on elsewhere"):
        here.cluster.kill(submission)
    host.write_text(name)
    assert status_of(here.cluster, submission) is DriverState.RUNNING


def test_missing_memory_java_or_write_access_is_reported_before_anything_starts(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match="the driver needs 1048576 MiB"):
        here.cluster.check(here.job(spark_driver_memory="1t"))
    (here.root / "orders" / "drivers").write_text("not a folder")
    with pytest.raises(ClusterError, match="cannot be started here"):
        here.cluster.submit(here.job())
    (here.root / "orders" / "drivers").unlink()
    monkeypatch.setenv("JAVA_HOME", str(here.root))
    with pytest.raises(ClusterError, match="no Java"):
        here.cluster.submit(here.job())
    assert not (here.root / "orders" / "drivers").exists()


def test_an_overview_shows_each_driver_as_its_status_and_links_do(tmp_path: Path) -> None:
    cluster = open_cluster(ClusterConnection("local[2]"))
    ended = {"0": DriverState.FINISHED, "3": DriverState.FAILED, "137": DriverState.KILLED, "": DriverState.LOST}
    drivers = {str(tmp_path / f"orders-1-{number}.0000000a"): state for number, state in enumerate(ended.values())}
    for folder, code in zip(drivers, ended, strict=True):
        Path(folder).mkdir()
        Path(folder, "host").write_text(socket.gethostname())
        if code:
            Path(folder, "exit").write_text(code)
    alive, elsewhere, never = (str(tmp_path / name) for name in ("alive.0000000a", "elsewhere.0000000a", "never"))
    for folder, host in ((alive, socket.gethostname()), (elsewhere, "elsewhere")):
        Path(folder).mkdir()
        Path(folder, "host").write_text(host)
    Path(alive, "log").symlink_to("/logs/alive.log")
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, processes.MARK: alive})
    try:
        wait_for("the process to show its mark", lambda: processes.of(alive))  # none until its exec is done
        found = cluster.look([*drivers, alive, elsewhere, never])
        assert {name: view.state for name, view in found.items()} == {
            **drivers,
            alive: DriverState.RUNNING,
            elsewhere: DriverState.UNKNOWN,
            never: DriverState.LOST,
        }
        for name, view in found.items():
            assert cluster.look([name])[name] == view
        assert found[alive].links == {"driver log": "/logs/alive.log"}
    finally:
        process.kill()
        process.wait()

"""A master that wants a token, has lost workers, or has forgotten a driver, over real HTTP."""

from __future__ import annotations

import dataclasses
import logging
import time
import traceback
from typing import Any

import pytest

from airflow_stream_provider.clusters import (
    ClusterConnection,
    DriverState,
    FoundDrivers,
    Remains,
    open_cluster,
    status_of,
)
from airflow_stream_provider.clusters.master_api import FETCHING_CLASS, MAIN_CLASS
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.fake_master import APP, WHOSE, Master
from tests.support.jobs import job

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhaXJmbG93In0.hunter2"


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({"password": TOKEN}, f"Bearer {TOKEN}"),
        ({"login": "airflow", "password": "hunter2"}, "Basic YWlyZmxvdzpodW50ZXIy"),
        ({"login": "airflow"}, ""),
    ],
)
def test_the_masters_get_the_connection_s_credentials_and_workers_do_not(
    master: Master, fields: dict[str, str], header: str
) -> None:
    master.wants = header
    master.add_worker("w")
    master.driver_was("KILLED", "w")
    cluster = open_cluster(master.connection(**fields))
    assert cluster.submit(job()) == "driver-1"
    assert status_of(cluster, "driver-1") is DriverState.KILLED
    cluster.kill("driver-1")
    assert cluster.remains("driver-1", WHOSE).gone
    to_worker = [found for path, found in master.asked if path == "GET /json/"][-1]
    assert to_worker == ""
    assert {found for path, found in master.asked if "/v1/" in path} == {header}


def test_a_refused_token_is_said_and_shown_nowhere(master: Master, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    connection = master.connection(password=TOKEN)
    cluster = open_cluster(connection)
    shown = [repr(connection), repr(connection.masters), repr(cluster), str(vars(cluster))]
    master.wants = "Bearer another"
    with pytest.raises(ClusterError, match="answered HTTP 403") as error:
        cluster.submit(job())
    shown += ["".join(traceback.format_exception(error.value)), str(error.value.fields)]
    assert "hunter2" not in "".join(shown) + caplog.text


def test_a_rest_server_that_refuses_the_token_says_where_it_belongs(master: Master) -> None:
    elsewhere = Master()
    elsewhere.wants = "Bearer another"
    try:
        cluster = open_cluster(master.connection(extra={"rest_url": elsewhere.url}))
        with pytest.raises(ClusterError, match="refused the connection's credentials: HTTP 403") as error:
            cluster.submit(job())
        assert "password" in error.value.next_step
    finally:
        elsewhere.close()


def test_a_driver_on_a_worker_that_the_master_has_lost_is_neither_alive_nor_gone(master: Master) -> None:
    master.add_worker("other")
    master.add_worker("lost", state="DEAD")
    master.driver_was("ERROR", "lost")
    # Without power, the application stays listed until TCP gives it up.
    master.state["activeapps"] = [APP]
    left = master.remains("app-1")
    assert left.alive == ()
    assert not left.gone
    assert "Driver driver-1 is ERROR (worker lost): it may run there still." in left.lost
    # Later the master forgets the worker; the driver is not found by that.
    master.state["workers"].pop()
    assert not master.remains("app-1").gone
    assert master.remains("app-1").alive == ()
    # Executors elsewhere are alive, whatever became of their driver.
    master.executors = [{"id": "0", "appid": "app-1", "appdesc": {"name": APP["name"]}}]
    assert master.remains("app-1").alive


@pytest.mark.parametrize(
    ("state", "worker", "gone"),
    [
        ("KILLED", "w", True),
        ("FAILED", "w", True),
        ("FINISHED", "w", True),
        ("KILLED", "None", True),  # in the queue: it never ran
        ("ERROR", "None", False),  # after a fail-over no worker claimed it
        ("ERROR", "lost", False),
        ("ERROR", "w", False),  # the worker is back, and is told only now to kill it
        ("RELAUNCHING", "lost", False),
        ("RELAUNCHING", "None", False),
    ],
)
def test_only_a_worker_s_word_or_a_kill_in_the_queue_ends_a_driver(
    master: Master, state: str, worker: str, gone: bool
) -> None:
    master.add_worker("w")
    master.driver_was(state, worker)
    found = master.remains()
    assert (found.alive, found.gone) == ((), gone)
    (view,) = open_cluster(master.connection()).look(["driver-1"]).values()
    assert view.state.terminal


def test_the_application_of_a_driver_on_a_worker_that_is_back_is_alive(master: Master) -> None:
    master.add_worker("w")
    master.driver_was("ERROR", "w")
    master.state["activeapps"] = [APP]
    assert master.remains("app-1").alive == ("Application app-1 is RUNNING.",)


@pytest.mark.parametrize("coresused", [0, 1])
def test_a_worker_that_the_master_has_lost_may_run_executors_whatever_it_counts(master: Master, coresused: int) -> None:
    """When an application ends, the master counts a worker's cores down though the kill may never arrive there."""
    master.add_worker("other")
    master.driver_was("KILLED", "other")
    assert master.remains().gone
    master.add_worker("away", state="DEAD", coresused=coresused)
    assert master.remains() == Remains(lost=("Worker away is DEAD, and may run executors.",))


def test_a_lost_worker_on_a_host_that_never_had_an_executor_of_ours_hides_nothing(master: Master) -> None:
    master.add_worker("other")
    master.add_worker("away", state="DEAD")
    master.driver_was("KILLED", "other")
    cluster = open_cluster(master.connection())
    for hosts, gone in ((None, False), ({"away.example"}, False), ({"other.example"}, True), (set(), True)):
        assert cluster.remains("driver-1", WHOSE, hosts=hosts).gone is gone


def test_a_driver_that_the_master_has_forgotten_is_not_confirmed_gone(master: Master) -> None:
    master.add_worker("w")
    assert master.remains().lost == ("The master does not know driver driver-1.",)


@pytest.mark.parametrize(
    ("fields", "age", "certain"),
    [
        ({}, 200, False),
        ({"mainclass": FETCHING_CLASS}, 200, False),
        ({}, 400, True),
        ({"cores": 2}, 0, True),
        ({"memory": 1024}, 0, True),
        ({"mainclass": "org.example.Batch"}, 0, True),
    ],
    ids=["may be ours", "may be ours, and fetches", "too long ago", "other cores", "other memory", "no Python"],
)
def test_a_queued_driver_hinders_only_who_may_have_submitted_it_a_moment_ago(
    master: Master, fields: dict[str, Any], age: float, certain: bool
) -> None:
    master.add_worker("w")
    started = str(int((time.time() - age) * 1000))
    queued = {"id": "driver-9", "state": "SUBMITTED", "worker": "None", "mainclass": MAIN_CLASS, "starttime": started}
    master.state["activedrivers"] = [{**queued, "cores": 1, "memory": 512, **fields}]
    conf = {"spark.driver.memory": "512m"}
    found = open_cluster(master.connection()).find(WHOSE, time.time() - 3600, conf)
    assert found == FoundDrivers(certain=certain)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["x"], FoundDrivers(("driver-9",))),
        (["x", "y", "", "==== z"], FoundDrivers(("driver-9",))),
        (None, FoundDrivers(certain=False)),
    ],
    ids=["one line", "a setting of several lines", "not written whole yet"],
)
def test_a_driver_is_known_by_the_command_at_the_beginning_of_its_log(
    master: Master, lines: list[str] | None, found: FoundDrivers
) -> None:
    master.add_worker("w")
    driver = {"id": "driver-9", "state": "RUNNING", "worker": "w", "mainclass": MAIN_CLASS, "cores": 1, "memory": 512}
    master.state["activedrivers"] = [{**driver, "starttime": str(int(time.time() * 1000))}]
    words = ["java", f"-Dspark.airflow.stream.log={WHOSE.log}", "-Dspark.sql=" + "\n".join(lines or ["x", "y"])]
    words += [MAIN_CLASS, "launcher.py", "--deployment", WHOSE.deployment, "--", "app.py"]
    master.driver_log = "Launch Command: " + " ".join(f'"{word}"' for word in words) + "\n"
    master.driver_log += "" if lines is None else "=" * 40 + "\n\nWARNING: …\n"
    assert open_cluster(master.connection()).find(WHOSE, time.time() - 3600) == found


def test_a_kill_ends_the_application_of_a_driver_that_is_no_longer_listed(master: Master) -> None:
    master.add_worker("other")
    master.driver_was("ERROR", "lost")
    master.state["activeapps"] = [APP, {**APP, "id": "app-2"}]
    cluster = open_cluster(master.connection())
    cluster.kill("driver-1", ("app-1",))
    killed = [path for path, _ in master.asked if "/app/kill/" in path]
    assert killed == ["POST /app/kill/?id=app-1&terminate=true"]
    # A live driver ends its application itself, at a batch boundary if it can.
    master.state["activedrivers"] = [{"id": "driver-1", "state": "RUNNING", "worker": "other"}]
    cluster.kill("driver-1", ("app-1",))
    assert len([path for path, _ in master.asked if "/app/kill/" in path]) == 1


def test_an_overview_is_what_the_master_lists_in_one_question(master: Master) -> None:
    master.add_worker("w", "http://worker:8081")
    master.add_worker("lost", state="DEAD")
    master.driver_was("KILLED", "lost")
    master.state["activedrivers"] = [
        {"id": "driver-2", "state": "RUNNING", "worker": "w"},
        {"id": "driver-3", "state": "SUBMITTED", "worker": "None"},
    ]
    found = open_cluster(master.connection()).look([f"driver-{number}" for number in range(1, 5)])
    assert {name: view.state for name, view in found.items()} == {
        "driver-1": DriverState.KILLED,
        "driver-2": DriverState.RUNNING,
        "driver-3": DriverState.QUEUED,
        "driver-4": DriverState.LOST,
    }
    log = "http://worker:8081/logPage/?driverId=driver-2&logType=stderr"
    assert found["driver-2"].links == {"Spark master": master.url, "driver log": log}
    assert {str(view.links) for name, view in found.items() if name != "driver-2"} == {
        str({"Spark master": master.url})
    }
    assert [path for path, _ in master.asked] == ["GET /json/"]


def test_an_overview_is_an_error_where_no_master_answers() -> None:
    away = ClusterConnection("spark://127.0.0.1", extra={"master_ui": "http://127.0.0.1:1"})
    with pytest.raises(ClusterError):
        open_cluster(away).look(["driver-1"])


def test_the_end_of_a_driver_s_log_is_that_of_its_jvm_and_of_its_python(master: Master) -> None:
    master.add_worker("w")
    master.driver_was("FAILED", "w")
    master.logs = {"stderr": "x" * 100_000 + "\nUser application exited\n", "stdout": "password=hunter2\nBoom.\n"}
    cluster = open_cluster(master.connection())
    shown = "  stderr:\n  | User application exited\n  stdout:\n  | password=***\n  | Boom."
    assert cluster.log_tail("driver-1") == shown
    assert cluster.log_tail("driver-2") == ""
    master.driver_was("ERROR", "None")
    assert cluster.log_tail("driver-1") == ""


def test_of_a_worker_that_does_not_answer_or_is_not_to_be_asked_no_log_is_known(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_stream_provider.clusters.master_api.TIMEOUT", 0.5)
    master.add_worker("w")
    master.add_worker("stranger", "http://192.0.2.1:8081")
    cluster = open_cluster(master.connection())
    master.driver_was("FAILED", "stranger")
    assert cluster.log_tail("driver-1") == ""
    master.driver_was("FAILED", "w")
    master.hang = True
    assert cluster.log_tail("driver-1") == ""
    master.state["status"] = "STANDBY"
    assert cluster.log_tail("driver-1") == ""


def test_whose_a_driver_is_its_worker_says_and_an_application_its_name(master: Master) -> None:
    master.add_worker("w")
    driver = {"id": "driver-1", "state": "RUNNING", "worker": "w", "mainclass": MAIN_CLASS, "cores": 1, "memory": 512}
    master.state |= {"activedrivers": [driver], "activeapps": [APP]}
    cluster, other = open_cluster(master.connection()), dataclasses.replace(WHOSE, log="ff" * 16)
    assert [cluster.look(["app-1"], each)["app-1"].ours for each in (WHOSE, other)] == [True, False]
    assert cluster.look(["driver-1"], other)["driver-1"].ours is None, "its worker does not show a command"
    words = ["java", f"-Dspark.airflow.stream.log={WHOSE.log}", MAIN_CLASS, "--deployment", WHOSE.deployment]
    master.driver_log = "Launch Command: " + " ".join(f'"{word}"' for word in words) + "\n" + "=" * 40 + "\n"
    assert [cluster.look(["driver-1"], each)["driver-1"].ours for each in (WHOSE, other)] == [True, False]
    assert cluster.look(["driver-2"], other)["driver-2"].ours is None
    driver |= {"state": "SUBMITTED", "worker": "None"}
    assert cluster.look(["driver-1"], WHOSE)["driver-1"].ours is False, "who waits for a worker has said nothing"
    driver |= {"state": "RELAUNCHING"}
    assert cluster.look(["driver-1"], WHOSE)["driver-1"].ours is None

"""A job that somebody else has started, as a master and its workers list it over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, UnmanagedView, open_cluster
from airflow_stream_provider.clusters.master_api import MAIN_CLASS
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.fake_master import APP, Master

DRIVER = "driver-20261121023732-0002"
APPLICATION = "app-20261121023740-0001"
COMMAND = 'Launch Command: "java" "{main}" "{script}" {more}\n' + "=" * 40 + "\n"


def look(master: Master, id: str) -> UnmanagedView:
    found = open_cluster(master.connection()).unmanaged(id)
    assert found is not None
    return found


def executor(app: str) -> dict[str, Any]:
    return {"id": 0, "appid": app, "appdesc": {"name": "orders"}}


@pytest.fixture
def one(master: Master) -> Master:
    """A master with a worker, on which a driver runs as somebody has submitted it, and its application."""
    master.add_worker("w")
    driver = {"id": DRIVER, "state": "RUNNING", "worker": "w", "mainclass": MAIN_CLASS}
    app = {"id": APPLICATION, "name": "orders", "state": "RUNNING", "cores": 2, "user": "spark"}
    master.state |= {"activedrivers": [driver], "activeapps": [app]}
    master.driver_log = COMMAND.format(main=MAIN_CLASS, script="/apps/orders.py", more="")
    master.executors = [executor(APPLICATION)]
    return master


def end(master: Master, state: str = "KILLED") -> None:
    """Let the master say that both have ended; the worker still lists the executor."""
    for kind in ("drivers", "apps"):
        (found,) = master.state[f"active{kind}"]
        master.state |= {f"active{kind}": [], f"completed{kind}": [{**found, "state": state}]}


def test_a_driver_is_named_and_runs(one: Master) -> None:
    found = look(one, DRIVER)
    assert (found.state, found.gone, found.managed) == (DriverState.RUNNING, False, False)
    assert found.about == f"driver {DRIVER} ({MAIN_CLASS}, worker w)"
    assert found.remains.alive == (f"Driver {DRIVER} is RUNNING.",)


def test_a_driver_is_gone_when_no_executor_of_an_application_that_has_ended_is_left(one: Master) -> None:
    end(one)
    assert look(one, DRIVER).remains.alive == (f"Executor 0 of {APPLICATION} is alive on worker w.",)
    one.state["activeapps"] = [{**APP, "user": "x"}]
    one.executors = [executor("app-1")]
    assert look(one, DRIVER).gone, "another team's application runs on"


def test_an_application_of_client_mode_is_gone_when_its_executors_are(one: Master) -> None:
    found = look(one, APPLICATION)
    assert (found.state, found.gone) == (DriverState.RUNNING, False)
    assert found.about == f"application {APPLICATION} (orders) of spark"
    end(one)
    assert not look(one, APPLICATION).gone
    one.executors = []
    assert look(one, APPLICATION).gone


@pytest.mark.parametrize("id", [DRIVER, APPLICATION])
def test_what_the_master_does_not_know_is_lost_and_not_gone(master: Master, id: str) -> None:
    master.add_worker("w")
    found = look(master, id)
    assert (found.state, found.gone) == (DriverState.LOST, False)


@pytest.mark.parametrize("state", ["ERROR", "RELAUNCHING"])
def test_a_driver_that_the_master_has_lost_may_run_still(one: Master, state: str) -> None:
    end(one, state)
    one.executors = []
    found = look(one, DRIVER)
    assert (found.state, found.gone) == (DriverState.LOST, False)


def test_nobody_can_say_what_a_lost_worker_runs(one: Master) -> None:
    end(one)
    one.executors = []
    one.add_worker("cut-off", state="DEAD")
    found = look(one, DRIVER)
    assert not found.gone
    assert found.remains.lost == ("Worker cut-off is DEAD, and may run executors.",)


def test_a_driver_of_this_provider_is_not_for_adoption(one: Master) -> None:
    more = '"--control" "file:///c" "--deployment" "orders-1-aaaa"'
    one.driver_log = COMMAND.format(main=MAIN_CLASS, script="/c/launcher.py", more=more)
    assert look(one, DRIVER).managed
    one.state["activeapps"] = [{**APP, "id": APPLICATION, "user": "spark"}]
    assert look(one, APPLICATION).managed


@pytest.mark.parametrize("log", ["", "26/11/21 02:37:32 INFO SparkContext: a log that was rolled\n"])
def test_whose_a_driver_is_without_its_command_is_not_known(one: Master, log: str) -> None:
    one.driver_log = log
    assert look(one, DRIVER).managed is None


def test_the_master_is_asked_to_end_it(one: Master) -> None:
    cluster = open_cluster(one.connection())
    for id, path in ((DRIVER, f"POST /v1/submissions/kill/{DRIVER}"), (APPLICATION, "POST /app/kill/?id=")):
        cluster.kill(id)
        assert one.asked[-1][0].startswith(path)


@pytest.mark.parametrize("id", ["orders", "application_1_0001", "driver-1/../x", "app-x"])
def test_an_id_of_another_cluster_is_refused_by_its_form(master: Master, id: str) -> None:
    with pytest.raises(ClusterError, match="is no id of a Spark standalone cluster"):
        open_cluster(master.connection()).unmanaged(id)
    assert master.asked == []

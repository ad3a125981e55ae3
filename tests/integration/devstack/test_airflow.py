import os
import signal

import pytest

from devstack.airflow import PARTS
from devstack.airflow_api import AirflowApi
from devstack.drivers import wait_for
from devstack.errors import StackError
from devstack.stack import LocalStack

DAG = "trivial"


@pytest.fixture
def api(stack: LocalStack) -> AirflowApi:
    api = stack.airflow.api
    api.wait_for_dag(DAG)
    api.unpause(DAG)
    return api


@pytest.mark.system
def test_a_run_succeeds_with_connections_to_this_stack(stack: LocalStack, api: AirflowApi) -> None:
    run = api.trigger(DAG, {"greeting": "hello"})
    assert api.wait_for_run(DAG, run) == "success", api.task_log(DAG, run, "connections")
    assert api.task_states(DAG, run) == {"connections": "success"}
    path = f"dags/{DAG}/dagRuns/{run}/taskInstances/connections/xcomEntries/return_value"
    rest = stack.spark.connection["extra"]["rest_url"]
    assert api.call("GET", path)["value"] == ["hello", stack.bootstrap_servers, rest]


def test_a_cleared_task_runs_again_though_the_scheduler_was_killed(stack: LocalStack, api: AirflowApi) -> None:
    run = api.trigger(DAG, {"greeting": "hello"})
    assert api.wait_for_run(DAG, run) == "success"
    [before] = [task["try_number"] for task in api.tasks(DAG, run)]
    scheduler = stack.airflow.parts["scheduler"]
    os.kill(scheduler.pid, signal.SIGKILL)
    scheduler.popen.wait()
    assert all(stack.airflow.parts[part].alive for part in PARTS if part != "scheduler")
    stack.airflow.start_part("scheduler")
    api.clear(DAG, run, ["connections"])
    assert api.wait_for_run(DAG, run) == "success"
    [after] = [task["try_number"] for task in api.tasks(DAG, run)]
    assert after > before


def test_a_part_that_ends_by_itself_is_started_again(stack: LocalStack) -> None:
    stack.airflow.parts["triggerer"].signal(signal.SIGKILL)
    failing = stack.processes.start("airflow-triggerer", ["sh", "-c", "exit 3"], env={}, folder=stack.folder)
    stack.airflow.parts["triggerer"] = failing
    wait_for("a new triggerer", lambda: stack.airflow.parts["triggerer"] is not failing)
    stack.airflow.wait_healthy()
    assert "ended with exit code 3; started again" in failing.log.read_text()


def test_a_refused_call_has_the_answer_of_airflow(api: AirflowApi) -> None:
    with pytest.raises(StackError, match=r"\(404\).*nowhere"):
        api.trigger("nowhere")


def test_an_airflow_with_another_password_is_not_healthy(stack: LocalStack) -> None:
    stack.airflow.wait_healthy()  # on a busy machine a part may be late with its heartbeat
    assert not AirflowApi(stack.airflow.url, stack.airflow.user, "another password").healthy()


def test_nobody_else_can_read_the_passwords(stack: LocalStack) -> None:
    assert stack.airflow.folder.stat().st_mode & 0o077 == 0

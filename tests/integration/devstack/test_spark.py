import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from devstack import reaper
from devstack.stack import LocalStack

SCRIPT = Path(__file__).with_name("script_kafka.py")


def test_the_worker_offers_what_was_asked_for(stack: LocalStack) -> None:
    (worker,) = stack.spark.status()["workers"]
    assert (worker["cores"], worker["memory"]) == (8, 6 * 1024)


def test_a_driver_on_the_worker_has_kafka_this_python_and_the_mark_and_listens_here_only(
    stack: LocalStack, tmp_path: Path
) -> None:
    listening: set[str] = set()
    stack.broker.create_topics({"from-spark": 1})
    answer = tmp_path / "answer"
    submission = submit(stack, SCRIPT, stack.bootstrap_servers, "from-spark", str(answer))
    url = f"{stack.spark.masters[0].rest_url}/v1/submissions/status/{submission}"
    deadline = time.monotonic() + 300
    while not answer.exists():
        status = requests.get(url, timeout=60).json()
        log = stack.spark.folder / "work" / submission / "stderr"
        assert status["driverState"] in ("SUBMITTED", "RUNNING", "FINISHED"), log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        listening |= set(listening_addresses(stack.processes.mark))
        time.sleep(0.5)
    home = [stack.processes.mark, sys.executable]
    assert json.loads(answer.read_text()) == {"count": 10, "driver": home, "executor": home}
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


@pytest.mark.system  # a minute
def test_a_master_that_is_started_again_knows_its_worker(stack: LocalStack) -> None:
    def workers() -> dict[str, str]:
        return {worker["id"]: worker["state"] for worker in stack.spark.status().get("workers", ())}

    before = workers()
    master = stack.processes.restart("spark-master")
    stack.processes.wait_for("the worker to be known", lambda: workers() == before, 120, master)


def listening_addresses(mark: str) -> Iterator[str]:
    """Yield the addresses on which processes of the stack, also drivers and executors, listen now."""
    for process in reaper.marked(mark):
        with contextlib.suppress(psutil.Error):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    yield connection.laddr.ip


def submit(stack: LocalStack, script: Path, *arguments: str) -> str:
    properties = {
        "spark.app.name": script.stem,
        "spark.master": stack.spark.master_url,
        "spark.submit.deployMode": "client",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.cores.max": "1",
        # No class path here, because the worker has the connector.
        **{key: value for key, value in stack.spark.conf.items() if key.endswith("extraJavaOptions")},
    }
    request = {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": stack.spark.status().get("version", "4"),
        "appResource": "",
        "mainClass": "org.apache.spark.deploy.PythonRunner",
        "appArgs": [str(script), "", *arguments],
        "environmentVariables": {},
        "sparkProperties": properties,
    }
    answer = requests.post(f"{stack.spark.masters[0].rest_url}/v1/submissions/create", json=request, timeout=60).json()
    assert answer["success"], answer
    return str(answer["submissionId"])

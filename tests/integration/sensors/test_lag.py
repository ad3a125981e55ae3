"""Lag in a real Airflow with a real triggerer, against a real broker; the stream is its control log and checkpoint."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.kafka.client import KafkaClient
from devstack.airflow_api import AirflowApi
from devstack.checkpoint_trees import commit, new, plan
from devstack.checkpoint_trees import kafka as offsets
from devstack.drivers import wait_for
from devstack.kafka_writes import commit_group
from devstack.stack import LocalStack
from tests.support.control_root import new_log

ROOT = Path(__file__).parents[3]
DAGS = Path(__file__).parent / "dags"
HOLDER = "orders-1.00000001"
YAML = """\
name: orders
application: apps/orders.py
version: "1"
cluster: spark_default
kafka: kafka_default
control: {control}
lag: {{max_records: 20}}
"""


class Stream:
    """A stream that somebody runs, and the topic that it reads."""

    def __init__(self, stack: LocalStack, folder: Path) -> None:
        self.stack = stack
        self.checkpoint = new(folder / "checkpoints" / "enrich")
        self.batch = -1
        # What is flushed together is there together: no look sees a part of it.
        self.producer = KafkaProducer(bootstrap_servers=stack.bootstrap_servers, linger_ms=60_000)
        self.committed = {0: 0, 1: 0}
        stack.broker.create_topics({"orders": 2})
        log = new_log(f"file://{folder}/control", "orders")
        query = {"name": "enrich", "checkpoint": str(self.checkpoint), "sources": ["kafka:subscribe=orders"]}
        records: tuple[tuple[str, dict[str, Any]], ...] = (
            ("declared", {"release": {"version": "1", "hash": "0" * 64}, "policy": {}, "reason": "test"}),
            ("submitted", {"submission": "driver-1", "cluster": "c"}),
            ("standby", {"incarnation": HOLDER, "queries": [query], "rehearsal": {}}),
            ("requested", {"request": "r", "to": HOLDER, "expires": time.time() + 60, "reason": "test"}),
            ("ready", {"request": "r", "incarnation": HOLDER}),
            ("acquired", {"request": "r", "incarnation": HOLDER, "epoch": 1}),
        )
        for seq, (kind, fields) in enumerate(records):
            named = {"deployment": "orders-1"} if kind in ("declared", "submitted", "standby") else {}
            log.append(make_record(kind, "test", **named, **fields), seq)

    def produce(self, records: int) -> None:
        for number in range(records):
            self.producer.send("orders", b"x", partition=number % 2)
        self.producer.flush()

    def commit(self, *offset: int) -> None:
        """Commit a batch up to an offset of each partition; everything without."""
        self.batch += 1
        self.committed = dict(enumerate(offset)) if offset else self.ends()
        plan(self.checkpoint, self.batch, offsets(orders=self.committed))
        commit(self.checkpoint, self.batch)

    def ends(self) -> dict[int, int]:
        with KafkaClient("test", self.stack.broker.connection["extra"]) as client:
            found = client.offsets({TopicPartition("orders", number): -1 for number in range(2)})
        return {tp.partition: each.offset for tp, each in found.items()}

    def behind(self, records: int) -> None:
        """Have so many records wait in partition 0, and none in the other; a look meanwhile sees no more of them."""
        for _ in range(records - (self.ends()[0] - self.committed[0])):
            self.producer.send("orders", b"x", partition=0)
        self.producer.flush()
        ends = self.ends()
        self.commit(ends[0] - records, ends[1])


@pytest.fixture(scope="module")
def gauges() -> Iterator[tuple[int, list[str]]]:
    """A StatsD daemon: its port, and what it was sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(0.2)
        found: list[str] = []
        over = threading.Event()

        def receive() -> None:
            while not over.is_set():
                try:
                    found.append(daemon.recv(4096).decode())
                except TimeoutError:
                    continue

        thread = threading.Thread(target=receive)
        thread.start()
        yield daemon.getsockname()[1], found
        over.set()
        thread.join()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, gauges: tuple[int, list[str]]) -> Iterator[LocalStack]:
    folder = tmp_path_factory.mktemp("lag")
    shutil.copytree(DAGS, folder / "dags")
    (folder / "dags" / "streams").mkdir()
    (folder / "dags" / "streams" / "orders.yaml").write_text(YAML.format(control=f"file://{folder}/control"))
    variables = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support' / 'statsd_client'}",
        "AIRFLOW_CONN_KAFKA_EMPTY": json.dumps({"conn_type": "kafka"}),
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(gauges[0]),
    }
    with LocalStack(
        folder / "stack", spark=False, airflow=True, dags_folder=folder / "dags", variables=variables
    ) as started:
        yield started


@pytest.fixture(scope="module")
def stream(stack: LocalStack) -> Iterator[Stream]:
    made = Stream(stack, stack.folder.parent)
    made.produce(10)
    for _ in range(3):
        made.commit()
    yield made
    made.producer.close(timeout=60)  # or it looks for its broker for as long as this process has other tests


@pytest.fixture(scope="module")
def api(stack: LocalStack, stream: Stream) -> AirflowApi:
    api = stack.airflow.api
    for dag in ("measure", "judge", "gate", "behind"):
        api.wait_for_dag(dag)
        api.unpause(dag)
    return api


def run(api: AirflowApi, dag: str, **conf: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a DAG to its end and return the states and return values of its tasks."""
    made = api.trigger(dag, conf)
    api.wait_for_run(dag, made, 500)
    return api.task_states(dag, made), {task: xcom(api, dag, made, task) for task in api.task_states(dag, made)}


def xcom(api: AirflowApi, dag: str, made: str, task: str) -> Any:
    path = f"dags/{dag}/dagRuns/{made}/taskInstances/{task}/xcomEntries"
    if any(each["key"] == "return_value" for each in api.call("GET", path)["xcom_entries"]):
        return api.call("GET", f"{path}/return_value")["value"]
    return None


def open_incidents(api: AirflowApi) -> list[dict[str, Any]]:
    """The events that DAG runs were made of, oldest first."""
    made = api.call("GET", "dags/behind/dagRuns", order_by="run_after")["dag_runs"]
    found = [xcom(api, "behind", each["dag_run_id"], "tell") for each in made if each["state"] == "success"]
    return [event["payload"] for events in found if events for event in events]


def airflow(stack: LocalStack, *commands: str) -> list[subprocess.CompletedProcess[str]]:
    """Run `airflow streams` with each of these, all at once."""
    environment = {**os.environ, **{k: v for k, v in stack.airflow.environment.items() if v is not None}}
    for name in [name for name, value in stack.airflow.environment.items() if value is None]:
        environment.pop(name, None)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "airflow", "streams", *command.split()]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)

    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(run, commands))


def test_the_operator_returns_the_lag_of_a_stream_and_of_a_group(
    stack: LocalStack, api: AirflowApi, stream: Stream
) -> None:
    stream.behind(7)
    with KafkaClient("test", stack.broker.connection["extra"]) as client:
        commit_group(client, "loader", {TopicPartition("orders", 0): stream.ends()[0] - 3})
    states, found = run(api, "measure", group="loader")
    assert states == {"stream": "success", "group": "success", "here": "success"}
    assert (found["stream"]["records"], found["stream"]["complete"]) == (7, True)
    assert found["stream"]["queries"][0]["query"] == "enrich"
    assert [p["lag"] for p in found["stream"]["queries"][0]["partitions"]] == [7, 0]
    # Partition 1 was never committed, and only the group's consumers know where they would begin.
    for task in ("group", "here"):
        assert (found[task]["records"], found[task]["complete"]) == (3, False)
        assert [p["state"] for p in found[task]["queries"][0]["partitions"]] == ["no_commit", "ok"]


def test_a_group_that_nobody_knows_is_no_lag_of_zero(api: AirflowApi, stream: Stream) -> None:
    states, found = run(api, "measure", group="nobody")
    assert states["group"] == "success"
    assert (found["group"]["records"], found["group"]["verdict"]) == (None, "NOTFOUND")


def test_sensors_pass_and_skip_and_wait_in_vain(api: AirflowApi, stream: Stream) -> None:
    stream.behind(20)
    states, found = run(api, "judge", group="nobody")
    assert states == {"stream": "success", "group": "skipped", "patient": "failed"}
    assert found["stream"]["records"] == 20


def test_a_lag_that_stays_too_large_fails_with_what_is_wrong(api: AirflowApi, stream: Stream) -> None:
    stream.behind(21)
    made = api.trigger("judge", {"group": "nobody"})
    api.wait_for_run("judge", made, 500)
    assert api.task_states("judge", made)["stream"] == "failed"
    assert "enrich is behind by 21 records; 20 are allowed." in api.task_log("judge", made, "stream")
    assert xcom(api, "judge", made, "stream")["records"] == 21
    stream.commit()


def test_a_connection_without_brokers_fails_at_once_and_says_so(api: AirflowApi, stream: Stream) -> None:
    made = api.trigger("judge", {"group": "loader", "kafka": "kafka_empty"})
    api.wait_for_run("judge", made, 500)
    states = api.task_states("judge", made)
    assert (states["group"], states["patient"]) == ("failed", "failed")
    assert "'kafka_empty' names no broker" in api.task_log("judge", made, "group")


def test_the_gate_opens_once_everything_that_was_there_is_committed(api: AirflowApi, stream: Stream) -> None:
    stream.behind(50)
    made = api.trigger("gate")
    wait_for("the gate to wait", lambda: api.task_states("gate", made)["caught_up"] == "deferred")
    stream.produce(4)
    time.sleep(3)
    assert api.task_states("gate", made)["caught_up"] == "deferred"
    stream.commit()
    stream.produce(30)  # came after the gate began to wait: not its business
    assert api.wait_for_run("gate", made, 500) == "success"
    stream.commit()


def test_an_asset_tells_of_a_lag_once_when_it_begins_and_once_when_it_ends(api: AirflowApi, stream: Stream) -> None:
    stream.commit()
    wait_for(
        "earlier incidents to be closed", lambda: [e["event"] for e in open_incidents(api)][-1:] in (["close"], [])
    )
    before = len(open_incidents(api))
    stream.behind(100)
    opened = wait_for("the incident to open", lambda: open_incidents(api)[before:])[0]
    stream.behind(200)
    time.sleep(3)
    stream.commit()
    closed = wait_for("the incident to close", lambda: open_incidents(api)[before + 1 :])[0]
    assert [opened["event"], closed["event"], len(open_incidents(api)) - before] == ["open", "close", 2]
    assert opened["incident"] == closed["incident"]
    assert opened["reasons"] == ["enrich is behind by 100 records; 20 are allowed."]
    assert closed["lag"]["records"] == 0


def test_the_triggerer_sends_gauges(api: AirflowApi, stream: Stream, gauges: tuple[int, list[str]]) -> None:
    stream.commit()
    wanted = {
        "airflow.stream.lag.records.orders.enrich.orders:0.0|g",
        "airflow.stream.lag.verdict.orders.enrich.OK:1.0|g",
    }
    wait_for("the gauges", lambda: wanted <= set(gauges[1]))


def test_the_command_line_shows_a_lag_and_tells_it_by_its_exit_code(stack: LocalStack, stream: Stream) -> None:
    stream.behind(30)
    told, typo, status, samples = airflow(stack, "lag orders --json", "lag order", "status", "lag orders --history")
    assert (told.returncode, json.loads(told.stdout)["records"]) == (2, 30), told.stderr
    assert (typo.returncode, "There is no stream order" in typo.stderr) == (3, True)
    # Its driver has never given a sign of life.
    assert status.returncode == 2, status.stderr
    assert (samples.returncode, "The watch has no sample of orders yet" in samples.stdout) == (3, True), samples.stderr
    stream.commit()
    (well,) = airflow(stack, "lag orders")
    assert (well.returncode, "PASS" in well.stdout) == (0, True), well.stderr

"""One bad record in 100,000, on the real stack under load: found, kept elsewhere, left out; none is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from airflow_stream_provider.kafka.dead_letters import ERROR, OFFSET, PARTITION, TOPIC, DeadLetters
from airflow_stream_provider.lifecycle.skip import KafkaRecord, skipped
from devstack.audit import read_topic
from devstack.drivers import wait_for
from devstack.stack import LocalStack
from devstack.stack_stream import QUERIES, StackStream, stack_stream
from devstack.unmanaged import yaml_of
from tests.support.autopilot import Autopilot

ROOT = Path(__file__).parents[2]
RECORDS = 100_000
BAD = b'{"id": no number'
Dossier = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def orders(stack: LocalStack, tmp_path: Path) -> Iterator[StackStream]:
    with stack_stream(tmp_path, stack, "bad-record", rate=1500) as opened:
        yield opened
        for record in opened.log.records():
            print(record.seq, record.kind, record.by, {k: v for k, v in record.fields.items() if k != "release"})


@pytest.fixture
def dossier(orders: StackStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dossier:
    """Give the command as a person does; return its exit code, and what it has printed."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": orders.stack.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_UNDER_TEST", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_UNDER_TEST", json.dumps(orders.stack.cluster.connection))
    (tmp_path / "yaml").mkdir()
    yaml = yaml_of(orders, tmp_path / "yaml", cluster="spark_under_test", kafka="kafka_under_test")

    def dossier(*words: str) -> tuple[int, dict[str, Any]]:
        call = [sys.executable, "-m", "airflow", "streams", "dossier", orders.stream, "--folder", str(yaml.parent)]
        environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*call, *words, "--json"], env=environment, capture_output=True, text=True, check=False, timeout=1500
        )
        print(done.stderr)
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    return dossier


def send_bad(orders: StackStream) -> KafkaRecord:
    producer = KafkaProducer(bootstrap_servers=orders.stack.bootstrap_servers)
    sent = producer.send(f"{orders.stream}-in", BAD, key=b"anna", headers=[("h", b"1"), ("h", b"2")], partition=1)
    found = sent.get(60)
    producer.close()
    return KafkaRecord(found.topic, found.partition, found.offset, found.timestamp)


def failing(orders: StackStream, one: str) -> set[str]:
    queries = orders.beat(one).queries
    return {each.name for each in queries if each.health is not None and each.health.state == "retrying"}


def test_it_is_found_kept_and_left_out_and_no_other_is_lost(
    orders: StackStream, dossier: Dossier, monkeypatch: pytest.MonkeyPatch
) -> None:
    Autopilot(orders)
    orders.stack.broker.create_topics({"bad-record-dead": 1})
    orders.submit("one", "--strict")
    one = orders.standby("one")
    orders.hand_over(one)
    orders.settle()
    assert dossier()[1]["failing"] == []
    wait_for("half of the orders", lambda: orders.producer.sent >= RECORDS // 2)
    bad = send_bad(orders)
    began = time.time()
    wait_for("both queries to fail at it", lambda: failing(orders, one) == set(QUERIES))

    code, found = dossier()
    assert code == 1
    assert {each["query"] for each in found["failing"]} == set(QUERIES)
    assert all(each["batch"] is not None and each["ranges"] for each in found["failing"])
    code, found = dossier("--find", "--yes")
    assert code == 0, found
    assert {name: said["bad"] for name, said in found["queries"].items()} == {key: [bad.name] for key in QUERIES}
    assert found["records"][0]["value_bytes"] == len(BAD)
    assert "no number" not in json.dumps(found["records"])
    print(f"found {time.time() - began:.0f} s after it was sent: {found['queries']}")

    # A command that is cut off between copy and wish copies nothing twice.
    letters = DeadLetters("kafka_under_test", {"bootstrap.servers": orders.stack.bootstrap_servers})
    assert letters.write("bad-record-dead", letters.read([bad]), orders.stream, "cut off") == 1
    words = ("--skip", bad.name, "--dead-letter", "bad-record-dead", "--reason", "no JSON", "--yes")
    code, found = dossier(*words)
    left_out = time.time()
    assert (code, found["copied"]) == (0, 0), found
    assert skipped(orders.state) == (str(bad),)
    letter = list(read_topic(orders.stack.bootstrap_servers, "bad-record-dead"))
    assert [(each.key, each.value) for each in letter] == [(b"anna", BAD)]
    headers = letters.read([KafkaRecord("bad-record-dead", 0, letter[0].offset)])[0].headers
    assert headers[:2] == [("h", b"1"), ("h", b"2")]
    assert {TOPIC, PARTITION, OFFSET, ERROR} <= {name for name, _ in headers}

    wait_for("every order to be produced", lambda: orders.producer.sent >= RECORDS - 1)
    # Spark's Kafka sink takes the good records of a batch again at each try that fails at the bad one, until it is left
    # out: only those. tests/integration/runtime/test_bad_records.py has a sink that takes each batch once.
    counted = orders.audit(failures=((began - 1, left_out),))
    print(f"all out {time.time() - began:.0f} s after it was sent: {counted}")
    assert (counted.lost, counted.duplicated) == (0, 0)
    assert counted.produced >= RECORDS - 1
    assert time.time() - began < 300
    assert dossier()[1]["skipped"] == [bad.name]

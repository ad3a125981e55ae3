"""A look at many streams with real parts that hang or are away: a broker, a store, a recipient."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from airflow_stream_provider.kafka import connect
from airflow_stream_provider.monitoring import delivery, folder_reading, health
from airflow_stream_provider.monitoring import folder_reading as root_reads
from airflow_stream_provider.monitoring.incidents import IncidentKind
from devstack.dead_mount import hanging
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from devstack.many_streams import PARTITIONS, StoredStream
from tests.support.namespaces import needs_fuse, run_program
from tests.support.watched_folder import HERE, OVER, RECEIVED, TOPICS, Folder

ROOT = Path(__file__).parents[3]
# What a loaded machine has no time for is not what is tested here; what hangs is given up as ever.
HASTE = [(root_reads, "READ_SECONDS"), (root_reads, "WRITE_SECONDS"), (folder_reading, "STAGE_SECONDS")]
# The few take seconds; a thousand are those of the issue.
COUNTS = [pytest.param(30, id="30"), pytest.param(1000, id="1000", marks=pytest.mark.system)]


@pytest.fixture(autouse=True)
def _connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    for module, limit in HASTE:
        monkeypatch.setattr(module, limit, 300.0)
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0.0)  # no driver beats between two reads of a look here
    OVER.clear()
    yield
    OVER.set()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as kafka:
        with kafka.client() as client:
            create_topics(client, {f"t{number}": PARTITIONS for number in range(TOPICS)})
        producer = KafkaProducer(bootstrap_servers=kafka.servers)
        for record in range(3 * PARTITIONS * TOPICS):
            producer.send(f"t{record % TOPICS}", b"an order", partition=record // TOPICS % PARTITIONS)
        producer.close()
        yield kafka


@pytest.mark.parametrize("count", COUNTS)
def test_a_kafka_that_is_away_for_ten_minutes_is_one_incident_for_all_its_streams(
    broker: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_HERE", json.dumps({"conn_type": "kafka", "extra": broker.extra}))
    folder = Folder(tmp_path, count, broker.servers)
    folder.look(0.0)
    assert folder.sample(0).queries["enrich"].records is not None
    os.kill(broker.pid(1), signal.SIGSTOP)
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(connect, "CONNECT_MS", 4000)
            for after in (60.0, 300.0, 659.0):
                folder.look(after)
                assert (folder.told(), folder.sample(count - 1).open_incidents) == ([], {})
            folder.look(661.0)
    finally:
        os.kill(broker.pid(1), signal.SIGCONT)
    (opened,) = RECEIVED[""]
    assert (opened.stream, opened.kind, opened.open) == ("Kafka kafka_here", IncidentKind.KAFKA, True)
    assert f"{count:,} streams (s0000, s0001, s0002, s0003, s0004 and {count - 5} more)" in opened.text
    broker.wait(lambda: broker._seen() == 1)
    folder.look(720.0)
    assert folder.told()[1:] == [("Kafka kafka_here", IncidentKind.KAFKA, False)]
    assert RECEIVED[""][1].incident == opened.incident
    folder.look(780.0)
    assert len(RECEIVED[""]) == 2
    for number in range(0, count, 10):
        assert folder.sample(number).open_incidents == {}
        assert folder.sample(number).queries["enrich"].records is not None


@needs_fuse
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "what",
    ["look_while_one_hangs", pytest.param("look_while_all_checkpoints_hang", marks=pytest.mark.system)],
)
def test_what_hangs_delays_no_other_stream(tmp_path: Path, count: int, what: str) -> None:
    program = (
        f"from tests.integration.monitoring.test_folder_look import HASTE, {what}\n"
        f"for module, limit in HASTE: setattr(module, limit, 300.0)\n{what}({count})"
    )
    said = run_program(program, tmp_path, 600)
    assert said.endswith("all others have their samples\n")


def look_while_one_hangs(count: int) -> None:
    """Run in a mount namespace of its own; the process must end though a thread hangs for ever."""
    scratch = Path(os.environ["SCRATCH"])
    folder = Folder(scratch, count, kafka="")
    folder.look(0.0)
    sick = folder.streams[count // 2]
    folder.dead.add(sick.name)  # nobody writes there: this test would hang itself
    with hanging(scratch / "control" / sick.name / "heartbeats"):
        began = time.monotonic()
        found = folder.look(60.0)
        lasted = time.monotonic() - began
        assert list(found.summary["unanswered"]) == [sick.name]
        assert found.summary["looked"] == count - 1
        folder.look(120.0)
        assert folder.told() == [(sick.name, "watch", True)]
    behind = [n for n in range(count) if n != count // 2 and folder.sample(n).at < folder.began + 119]
    assert behind == []
    # Not the time of a loaded machine for the others, but what the one that hangs adds to it.
    print(f"a look took {lasted:.1f} s")
    folder.dead.clear()
    folder.look(180.0)
    assert folder.told()[1:] == [(sick.name, "watch", False)]
    print("all others have their samples", flush=True)


def look_while_all_checkpoints_hang(count: int) -> None:
    """The mount of the checkpoints is another than that of the control root."""
    scratch = Path(os.environ["SCRATCH"])
    os.environ["AIRFLOW_CONN_KAFKA_HERE"] = json.dumps({"conn_type": "kafka", "extra": {}})
    folder = Folder(scratch, count)
    folder.look(0.0)
    folder.dead = {"s0001"}
    with hanging(scratch / "checkpoints"):
        for after in (60.0, 125.0):
            found = folder.look(after)
            assert (found.summary["looked"], found.summary["unanswered"]) == (count, {})
            assert found.summary["not_reached"] != []
    assert folder.told() == [("s0001", "down", True)]
    assert all(folder.sample(number).at > folder.began + 124 for number in range(count))
    print("all others have their samples", flush=True)


@pytest.mark.parametrize("count", COUNTS)
def test_a_recipient_that_hangs_delays_no_look_though_each_stream_has_an_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    if count < 100:  # what a thousand need of the half a minute, few do not
        monkeypatch.setattr(delivery, "delivery_seconds", lambda: 10.0)
    folder = Folder(tmp_path, count, kafka="")
    folder.notify = [{"call": f"{HERE}.hang"}, {"call": f"{HERE}.receive"}]
    folder.look(0.0)
    folder.dead = {stream.name for stream in folder.streams}
    folder.look(60.0)
    began = time.monotonic()
    found = folder.look(200.0)
    told = time.monotonic() - began
    assert len(found.summary["incidents"]) == min(count, 50)
    assert {kind for _, kind, _ in folder.told()} == {"down"}
    assert len({stream for stream, _, _ in folder.told()}) == count == len(folder.told())
    OVER.set()
    began = time.monotonic()
    folder.look(260.0)
    # Who got it does not get it again; the one that hung does.
    assert len(folder.told()) == count
    assert set(folder.sample(0).incidents["down"].acknowledged) == {"log", f"{HERE}.hang", f"{HERE}.receive"}
    # One after the other, a thousand time-outs would take hours.
    assert told < 300


@pytest.mark.parametrize("count", [pytest.param(20, id="20"), pytest.param(100, id="100", marks=pytest.mark.system)])
def test_a_look_that_was_killed_in_the_middle_is_made_up_for_by_the_next(tmp_path: Path, count: int) -> None:
    folder = Folder(tmp_path, count, kafka="")
    # Each look is in a process of its own, forked from one that has imported all.
    program = (
        "import os, sys; from pathlib import Path; from devstack.many_streams import StoredStream\n"
        "from tests.support.watched_folder import *\n"
        "from airflow_stream_provider.monitoring import health; health.AGAIN_SECONDS = 0.0\n"
        "import yaml\n"
        "streams = [StoredStream(Path(sys.argv[1]), f's{n:04d}', '', upgrades=1) for n in range(int(sys.argv[2]))]\n"
        "specs = [yaml.safe_load(s.yaml('spark_here', '')) | {'kafka': None} for s in streams]\n"
        "for _ in range(5):\n"
        "    if not (child := os.fork()):\n"
        "        print(os.getpid(), flush=True)\n"
        "        os.dup2(2, 1)\n"  # what a look logs is no number
        "        while True: look_at(*(StreamSpec.model_validate(spec) for spec in specs))\n"
        "    os.waitpid(child, 0)"
    )
    file = tmp_path / "control" / folder.streams[count // 2].name / "lag.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        killed = 0
        for pid in process.stdout:
            began = file.stat().st_size if file.exists() else 0
            until = time.monotonic() + 600
            try:
                while (file.stat().st_size if file.exists() else 0) <= began:
                    assert time.monotonic() < until
                    time.sleep(0.001)
            finally:
                os.kill(int(pid), signal.SIGKILL)
            killed += 1
    assert (killed, process.returncode) == (5, 0)
    found = folder.look(3600.0)
    assert (found.summary["looked"], found.summary["unanswered"]) == (count, {})
    assert all(folder.sample(number).at >= folder.began + 3600 for number in range(count))
    assert isinstance(folder.streams[0], StoredStream)

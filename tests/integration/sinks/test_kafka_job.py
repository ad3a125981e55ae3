"""A plain job with Kafka as its sink: real Spark, killed, frozen, and with tasks that run twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.drivers import wait_for
from devstack.kafka_cluster import KafkaCluster
from tests.support.kafka_sink import read, values
from tests.support.ledgers import wait_until_frozen
from tests.support.plain_job import PARTITIONS, PlainJob

pytestmark = pytest.mark.system


class Job(PlainJob):
    """One with Kafka as its sink, too, once as its ledger has it, and once without."""

    def __init__(self, folder: Path, kafka: KafkaCluster) -> None:
        super().__init__(folder, kafka, "app_kafka_sink.py", others=("out", "naive"), STREAM_SINK_BUS=kafka.servers)

    def committed(self) -> list[int]:
        return values(read(self.servers, "out", PARTITIONS))

    def naive(self) -> list[int]:
        return values(read(self.servers, "naive", PARTITIONS))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with KafkaCluster(tmp_path / "kafka") as kafka:
        yield Job(tmp_path, kafka)


def test_each_record_is_read_once_by_who_reads_what_is_committed(job: Job) -> None:
    job.produce(1500)
    assert job.run("one", "die in the transaction")[0] == -signal.SIGKILL
    assert job.committed() == []
    assert job.run("one", "die")[0] == -signal.SIGKILL
    assert job.committed() == list(range(1000))
    code, said = job.run("one", "retry", "count")
    assert code == 0, said
    assert job.committed() == list(range(1500))
    assert sorted(set(job.naive())) == list(range(1500))
    assert len(job.naive()) > 3500, "the batch that was run three times, and tasks that were run twice"
    assert "read_committed 1500" in said
    assert "read_uncommitted 2500" in said


def test_a_job_on_another_checkpoint_writes_nothing_twice(job: Job) -> None:
    job.produce(500)
    code, said = job.run("one")
    assert code == 0, said
    code, said = job.run("anew")
    assert code == 50, said
    assert "Overlap: SINK_REFUSED: Batch 0 of plain/out begins at offset 0 of orders, partition" in said
    job.produce(500)
    # One that begins where the sink is.
    code, said = job.run("new", "new")
    assert code == 0, said
    assert job.committed() == list(range(1000))


def test_a_second_job_is_refused_while_the_first_lives_and_a_frozen_one_writes_nothing_when_it_wakes(job: Job) -> None:
    job.produce(500)
    first = job.start("one", "stay", "freeze")
    try:
        wait_until_frozen(first)
        code, said = job.run("one", "take over")
        assert code == 0, said
        assert job.committed() == list(range(500))
        first.send_signal(signal.SIGCONT)
        _, said = first.communicate(timeout=300)
        assert first.returncode == 50, said
        assert "Fenced: SINK_REFUSED: " in said
        assert job.committed() == list(range(500))
    finally:
        first.kill()
        first.communicate()

    job.produce(500)
    first = job.start("one", "stay")
    try:
        wait_for("the others", lambda: len(job.committed()) == 1000)
        code, said = job.run("two")
        assert code == 50, said
        assert "writes plain/out" in said
        job.produce(500)
        wait_for("the last ones", lambda: job.committed() == list(range(1500)))
    finally:
        first.kill()
        first.communicate()

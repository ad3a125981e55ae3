"""A plain job with Kafka and Cassandra, killed between rows and ledger, and between ledger and Spark's commit."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack.cassandra import CassandraNode
from devstack.kafka_cluster import KafkaCluster
from tests.support.cassandra_in_hand import keyspace
from tests.support.plain_job import PlainJob

pytestmark = pytest.mark.system


class Job(PlainJob):
    """One with Cassandra, and a session of the test's own."""

    def __init__(self, folder: Path, kafka: KafkaCluster, url: str, session: Any) -> None:
        super().__init__(folder, kafka, "app_plain_cassandra.py", "orders", STREAM_SINK_SHOP=url)
        self.session = session

    def stamps(self) -> dict[int, int]:
        """The write time of each order."""
        return {row[0]: row[1] for row in self.session.execute("select id, writetime(customer) from orders")}

    def history(self) -> list[Any]:
        return sorted(self.session.execute("select * from stream_ledger"), key=lambda row: row.slot)


@pytest.fixture
def job(tmp_path: Path, node: CassandraNode) -> Iterator[Job]:
    with keyspace(node) as (url, session), KafkaCluster(tmp_path / "kafka") as kafka:
        session.execute("create table orders (id bigint primary key, customer text)")
        yield Job(tmp_path, kafka, url, session)


def test_a_job_that_is_killed_at_any_moment_writes_each_record(job: Job) -> None:
    job.produce(3500)
    code, said = job.run("one", "rows")
    assert code == -signal.SIGKILL, said
    early = job.stamps()
    assert len(early) == 2000, "rows of a batch that the ledger does not have yet are seen"
    ledger, *batches = job.history()
    assert (ledger.batch_id, [row.batch_id for row in batches]) == (0, [0])

    # The same batch again, with a later stamp; and killed with the ledger that has it.
    code, said = job.run("one", "ledger")
    assert code == -signal.SIGKILL, said
    again = job.stamps()
    assert again.keys() == early.keys()
    assert sum(again[number] == early[number] for number in early) == 1000
    assert sum(again[number] > early[number] for number in early) == 1000
    assert [row.batch_id for row in job.history()[1:]] == [0, 1]
    shutil.copytree(job.folder / "one", job.folder / "yesterday")

    # Spark runs it a third time, and the sink skips it.
    code, said = job.run("one")
    assert code == 0, said
    assert sorted(job.stamps()) == list(range(3500))
    assert job.stamps().items() >= again.items()
    assert [(row.batch_id, row.rows) for row in job.history()[1:]] == [(0, 1000), (1, 1000), (2, 1000), (3, 500)]

    # A checkpoint from yesterday, after the job that has ended left no sign of life; and a new one.
    job.produce(500)
    code, said = job.run("yesterday")
    assert code == 50, said
    assert "offsets would be written twice" in said
    code, said = job.run("new", "new")
    assert code == 0, said
    assert sorted(job.stamps()) == list(range(4000))

"""What a master that comes back does to a query, and what a worker keeps of what a driver writes."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

import airflow_stream_provider
from airflow_stream_provider.clusters import ClusterConnection, FoundDrivers, open_cluster
from devstack.drivers import wait_for
from tests.support.faulty import SECONDS, Start, TwoHosts, two_hosts
from tests.support.places import Place

pytestmark = pytest.mark.system


@pytest.mark.parametrize("recovers", [False, True])
def test_a_master_that_forgets_has_the_executors_of_every_stream_killed(
    tmp_path: Path, start: Start, recovers: bool
) -> None:
    with two_hosts(tmp_path / "own", recovers=recovers) as (spark, processes):
        job = start("aggregates", spark)
        wait_for("two executors", lambda: job.batch >= 2 and len(job.executors()) == 2, SECONDS)
        before = job.executors()
        processes.restart("spark-master")
        wait_for("its workers", lambda: len(spark.status().get("workers", ())) == 2, SECONDS)
        if recovers:
            wait_for("it to have recovered", lambda: spark.status().get("activeapps"), SECONDS)
            job.goes_on(5)
            assert job.executors() == before
        else:
            wait_for("no executor to be left", lambda: not job.executors(), SECONDS)
            assert job.said["active"], "nobody tells the query"
            assert spark.status()["activeapps"] == []


def test_a_driver_keeps_its_log_small_on_a_worker_and_is_still_found_by_it(cluster: TwoHosts, tmp_path: Path) -> None:
    connection = ClusterConnection(cluster.connection["host"], extra=cluster.connection["extra"])
    place = Place(open_cluster(connection), connection, tmp_path, launcher="app_talks.py")
    here = {"PYTHONPATH": str(Path(airflow_stream_provider.__file__).parents[1])}
    job, since = replace(place.job(spark_airflow_stream_driverLog_maxSize="300k"), environment=here), time.time()
    submission = place.cluster.submit(job)
    logs = {name: cluster.folder / "work" / submission / name for name in ("stdout", "stderr")}

    def last() -> int:
        """The number of the last line that a person is shown."""
        found = re.findall(r"(?<=out )\d+", place.cluster.log_tail(submission))
        return int(found[-1]) if found else -1

    wait_for("much more than is kept", lambda: last() > 100, SECONDS)
    for path in logs.values():
        kept = path.with_name(f"{path.name}.1")
        assert path.stat().st_size < 600_000
        assert 300_000 < kept.stat().st_size < 600_000
    assert place.certain(job, since) == FoundDrivers(alive=(submission,))
    place.end(submission, job)

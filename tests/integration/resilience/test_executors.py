"""What the loss or the sickness of executors does to a query, with and without the setting that is against it."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from airflow_stream_provider.clusters.spark_defaults import When, defaults
from devstack.drivers import wait_for
from tests.support.faulty import SECONDS, Start, TwoHosts

pytestmark = pytest.mark.system

GIVEN = defaults({}, When.STANDALONE, When.SEVERAL)
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    # As by default in Spark 3.5.
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.75",
}


@pytest.mark.parametrize("speculates", [False, True])
def test_speculation_writes_records_of_a_foreach_sink_twice(cluster: TwoHosts, start: Start, speculates: bool) -> None:
    conf = {"spark.cores.max": "4", "spark.executor.cores": "2", **(SPECULATION if speculates else {})}
    job = start("each_row", cluster, {**GIVEN, **conf})
    job.goes_on(3)
    # Of the first two batches, which are over.
    written = [job.count(f"written-{number}") for number in range(48)]
    assert min(written) == 1
    assert (max(written) > 1) is speculates


@pytest.mark.parametrize(("attempts", "survives"), [("4", False), ("8", True)])
def test_a_query_fails_that_loses_its_executor_as_often_as_a_task_is_tried(
    cluster: TwoHosts, start: Start, attempts: str, survives: bool
) -> None:
    job = start("waits", cluster, {"spark.cores.max": "1", "spark.task.maxFailures": attempts})
    for killed in range(4):
        (executor,) = wait_for(f"executor {killed + 1}", lambda: list(job.executors().values()), SECONDS)
        # A task is under way when its Python is.
        wait_for("its task", partial(executor.children, recursive=True), SECONDS)
        executor.kill()
        executor.wait(30)
    if survives:
        (job.root / "go").touch()
        job.goes_on(1)
    else:
        assert "failed 4 times" in job.fails()


def make_sick(folders: str) -> None:
    """Remove the folders of an executor, as a cleaner of /tmp does."""
    for folder in folders.split(os.pathsep):
        for blocks in Path(folder).glob("blockmgr-*"):
            shutil.rmtree(blocks)


@pytest.mark.parametrize("excludes", [False, True])
def test_a_sick_executor_takes_no_query_down_where_it_is_excluded(
    cluster: TwoHosts, start: Start, excludes: bool
) -> None:
    conf = {} if excludes else {"spark.excludeOnFailure.enabled": "false"}
    job = start("aggregates", cluster, {**GIVEN, **conf})
    wait_for("two executors", lambda: job.batch >= 2 and len(job.executors()) == 2, SECONDS)
    name, sick = min(job.executors().items())
    make_sick(sick.environ()["SPARK_EXECUTOR_DIRS"])
    if excludes:
        job.goes_on(10)
        wait_for("Spark to say so", lambda: job.said["excluded"] == [name], SECONDS)
    else:
        assert "failed 4 times" in job.fails()
    assert len(job.executors()) == 2, "it is healthy for all that Spark knows"


def test_a_sink_that_is_away_fails_the_query_as_before_and_costs_no_executor(cluster: TwoHosts, start: Start) -> None:
    job = start("fails", cluster, GIVEN)
    wait_for("two executors", lambda: job.said and len(job.executors()) == 2, SECONDS)
    before = job.executors()
    assert "failed 4 times" in job.fails()
    assert job.executors() == before
    assert job.said["excluded"] == []


@pytest.mark.parametrize(("level", "again"), [("MEMORY_AND_DISK", True), ("MEMORY_AND_DISK_2", False)])
def test_a_cached_table_is_computed_again_when_its_executor_is_lost(
    cluster: TwoHosts, start: Start, level: str, again: bool
) -> None:
    both = {
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
    }
    job = start("cached", cluster, {"spark.sql.autoBroadcastJoinThreshold": "-1", **both}, LEVEL=level)
    wait_for("two executors", lambda: job.batch >= 2 and len(job.executors()) == 2, SECONDS)
    assert job.count("computed") == 40
    executor = max(job.executors().values(), key=lambda each: each.create_time())
    executor.kill()
    job.goes_on(5)
    assert (job.count("computed") > 40) is again


@pytest.mark.parametrize("dynamic", [False, True])
def test_dynamic_allocation_starts_executors_for_each_batch(cluster: TwoHosts, start: Start, dynamic: bool) -> None:
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
        "spark.dynamicAllocation.maxExecutors": "2",
    }
    job = start("files", cluster, conf if dynamic else {})
    for number in range(3):
        (job.root / ".next").write_text('{"value": 1}\n')
        (job.root / ".next").rename(job.root / "in" / f"{number}.json")
        job.goes_on(1)
        if dynamic:
            wait_for("Spark to give its executors back", lambda: not job.executors(), SECONDS)
    started = list((cluster.folder / "work" / job.said["application"]).iterdir())
    assert len(started) >= 3 if dynamic else len(started) == 2

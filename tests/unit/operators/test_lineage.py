"""What a task tells OpenLineage, as namespace and name; events of the real provider are read in tests/integration."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import pytest
from airflow.providers.common.compat.openlineage.utils import spark

from airflow_stream_provider.clusters import Job
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks import stream as hooks
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.operators.lineage import (
    TellsLineage,
    driver_of,
    holder_facet,
    inputs,
    outputs,
    parent_job,
)
from airflow_stream_provider.operators.stream import HandOverOperator, StopStreamOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, UPGRADED, snapshot
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD_DEPLOYMENT, STARTED, write
from tests.support.tasks import context

KAFKA = {"option": "subscribe", "topics": "orders,returns", "servers": ["b:9092", "a:9092"]}
PARENT = {"spark.openlineage.parentRunId": "1", "spark.openlineage.parentJobName": "dag.t"}


def driver(**query: Any) -> Any:
    holder = snapshot(*UPGRADED).state.incarnations[NEW]
    return replace(holder, queries=({"name": "enrich", "checkpoint": "/checkpoints/enrich", **query},))


def read(**query: Any) -> list[tuple[str, str]]:
    beat = Heartbeat(queries=(QueryProgress("enrich", committed=({"seen": {"0": 7}}, None)),))
    return list(inputs(replace(snapshot(*UPGRADED), heartbeats={NEW: beat}), driver(**query)))


def test_inputs_are_topics_of_the_first_broker_and_folders() -> None:
    assert read(kafka_sources=[KAFKA], sources=["kafka:subscribe=orders,returns", "parquet:path=s3a://lake/in/"]) == [
        ("kafka://a:9092", "orders"),
        ("kafka://a:9092", "returns"),
        ("s3://lake", "in"),
    ]


def test_a_patterns_topics_are_those_that_were_read() -> None:
    assert read(kafka_sources=[{**KAFKA, "option": "subscribePattern", "topics": "s.*"}]) == [
        ("kafka://a:9092", "seen")
    ]


def test_of_two_sources_nobody_knows_which_one_a_patterns_topic_is_of() -> None:
    elsewhere = {"option": "subscribePattern", "topics": "s.*", "servers": ["other:9092"]}
    assert read(kafka_sources=[{**KAFKA, "topics": "seen"}, elsewhere]) == [("kafka://a:9092", "seen")]


def test_what_is_not_known_is_not_told() -> None:
    assert read(kafka_sources=[{**KAFKA, "servers": []}], sources=["rate:"]) == read() == []
    assert list(inputs(snapshot(), None)) == list(outputs(None)) == []


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"sink": "kafka", "target": "out", "sink_servers": ["a:9092"]}, [("kafka://a:9092", "out")]),
        ({"sink": "kafka", "target": "out"}, []),  # of a driver that does not say the broker
        ({"sink": "kafka", "target": "", "sink_servers": ["a:9092"]}, []),  # the rows name it
        ({"sink": "parquet", "target": "/data/out", "file_sink": True}, [("file", "/data/out")]),
        ({"sink": "delta", "target": "hdfs://nn:8020/out/"}, [("hdfs://nn:8020", "/out")]),
        ({"sink": "parquet", "target": "file:///data/a?b#c/"}, [("file", "/data/a?b#c")]),
        ({"sink": "parquet", "target": "s3a://lake/"}, [("s3://lake", "/")]),
        ({"sink": "parquet", "target": "gs://lake/a/b/"}, [("gs://lake", "a/b")]),
        (
            {"sink": "parquet", "target": "abfss://c@a.dfs.core.windows.net/x"},
            [("abfss://c@a.dfs.core.windows.net", "/x")],
        ),
        # On which file system, nobody says: a path without one, where the default may be remote.
        ({"sink": "parquet", "target": "/out", "checkpoint": "hdfs://nn:8020/c"}, []),
        ({"sink": "parquet", "target": "hdfs:///out", "file_sink": True}, []),
        ({"sink": "parquet", "target": "out", "file_sink": True}, []),
        ({"sink": "iceberg", "target": "lake.db.out"}, []),  # in which catalog?
        ({"sink": "parquet", "target": "s3a://me:hunter2@lake/out", "file_sink": True}, []),
        ({"sink": "own", "target": "wasbs://c@a.example/out?sig=abcdefghijklmnop"}, []),
        ({"sink": "foreachBatch", "target": ""}, []),
        ({"sink": "foreachBatch"}, []),
    ],
)
def test_outputs_are_topics_folders_and_tables(query: dict[str, Any], place: list[tuple[str, str]]) -> None:
    assert list(outputs(driver(**query))) == place
    assert list(outputs(replace(driver(**query), epoch=0))) == [], "it has never held the stream"


def test_a_deployment_without_a_driver_has_not_the_holders_data() -> None:
    state = snapshot(*UPGRADED).state
    assert driver_of(state, "orders-3-00000000") is None
    assert driver_of(state, OLD_DEPLOYMENT) is not state.last_driver is driver_of(state, "")


def test_a_change_of_holder_is_told_with_both_releases() -> None:
    done = {
        "deployment": NEW_DEPLOYMENT,
        "previous": OLD_DEPLOYMENT,
        "epoch": 2,
        "request": "mine",
        "gap_seconds": {"a": 0.5},
    }
    facet = holder_facet(snapshot(*UPGRADED), done)
    assert (facet["driver"], facet["deployment"], facet["epoch"]) == (NEW, NEW_DEPLOYMENT, 2)
    assert (facet["previous_deployment"], facet["previous_version"]) == (OLD_DEPLOYMENT, "1")
    assert facet["release"] != facet["previous_release"]
    assert facet["gap_seconds"] == {"a": 0.5}
    assert holder_facet(snapshot(*UPGRADED), {**done, "previous": ""})["previous_release"] == ""


def test_a_task_that_has_changed_no_holder_tells_of_none() -> None:
    standing_by = {"deployment": NEW_DEPLOYMENT, "previous": OLD_DEPLOYMENT, "epoch": 1}
    assert holder_facet(snapshot(*BOTH), standing_by) == holder_facet(snapshot(*BOTH), {}) == {}
    assert holder_facet(snapshot(), {}) == {}
    found = {"deployment": NEW_DEPLOYMENT, "previous": OLD_DEPLOYMENT, "epoch": 2, "request": ""}
    assert holder_facet(snapshot(*UPGRADED), found) == {}, "it held before"


def test_before_a_task_has_looked_nothing_is_told_and_a_stop_tells_nothing_at_all(spec: StreamSpec) -> None:
    assert issubclass(HandOverOperator, TellsLineage)
    assert not hasattr(StopStreamOperator(task_id="t", stream=spec), "get_openlineage_facets_on_complete")
    if importlib.util.find_spec("airflow.providers.openlineage") is None:
        pytest.skip("apache-airflow-providers-openlineage is not installed")
    task = HandOverOperator(task_id="t", stream=spec)
    ti = context()["ti"]
    assert task.get_openlineage_facets_on_complete(ti) is None
    task._last_look = snapshot(*UPGRADED)
    found = task.get_openlineage_facets_on_complete(ti)
    assert found is not None
    assert (found.inputs, found.outputs, found.run_facets) == ([], [], {})


def injecting(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    def inject(properties: dict[str, str], context: Any) -> dict[str, str]:
        if isinstance(found, Exception):
            raise found
        return {**properties, **found}

    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "True")
    monkeypatch.setattr(spark, "inject_parent_job_information_into_spark_properties", inject)


def test_the_parent_is_told_only_where_airflow_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parent_job({}) == {}
    injecting(monkeypatch, PARENT)
    assert parent_job({}) == PARENT
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "maybe")
    assert parent_job({}) == {}, "no task fails by it"


@pytest.mark.parametrize("found", [RuntimeError("no"), {"spark.openlineage.parentJobName": "password=hunter2"}])
def test_no_submission_fails_for_want_of_a_parent(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    injecting(monkeypatch, found)
    assert parent_job({}) == {}


def test_a_submission_has_the_parent_and_the_log_has_not(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, STARTED[0])
    jobs: list[Job] = []

    def submit_once(log: Any, cluster: Any, job: Job, by: str, **how: Any) -> bool:
        jobs.append(job)
        return True

    monkeypatch.setattr(hooks, "submit_once", submit_once)
    hook = hooks.StreamHook.of(spec)
    hook.parent_job = PARENT
    made = hook._job
    assert hook.submit(OLD_DEPLOYMENT, "t", first=True)
    own = {"spark.openlineage.parentRunId": "of the release"}
    monkeypatch.setattr(hook, "_job", lambda *given: replace(made(*given), conf=own))
    assert hook.submit(OLD_DEPLOYMENT, "t", first=True)
    assert [dict(job.conf) for job in jobs] == [PARENT, own]
    assert "openlineage" not in str(log.refresh().deployments[OLD_DEPLOYMENT].release)

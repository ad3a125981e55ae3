"""What a job's Spark conf is given where its own says nothing, on each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark
import pytest

from airflow_stream_provider.clusters.connection import YarnSettings
from airflow_stream_provider.clusters.kubernetes_connection import CONTAINER
from airflow_stream_provider.clusters.master_api import driver_conf
from airflow_stream_provider.clusters.spark_defaults import DEFAULTS, EXCLUDE, When, defaults
from airflow_stream_provider.clusters.yarn_request import spark_conf, submission_request
from airflow_stream_provider.clusters.yarn_room import ContainerSizes
from tests.support.driver_pods import pod_of
from tests.support.jobs import job

ENABLED = f"{EXCLUDE}.enabled"
YARN = YarnSettings(("http://rm:8088",), "alice", "/opt/spark", "streams", "/opt/python")


def pod_conf(pod: dict[str, Any]) -> dict[str, str]:
    words = pod["spec"]["containers"][0]["args"]
    return dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--conf")


def given(conf: Mapping[str, str], workers: int = 2) -> dict[str, dict[str, str]]:
    """What a job is given on each kind of cluster."""
    asked = job(conf=conf)
    return {
        "standalone": driver_conf(asked, "spark://one:7077", workers),
        "YARN": spark_conf(asked, YARN),
        "Kubernetes": pod_conf(pod_of(asked)),
        "this machine": asked.properties(),
    }


def test_every_cluster_gives_what_the_table_says_and_the_conf_goes_before_it() -> None:
    assert len({each.name for each in DEFAULTS}) == len(DEFAULTS)
    own = {each.name: "3" if "cores" in each.name else "own" for each in DEFAULTS}
    cases = {"standalone": When.STANDALONE, "YARN": When.YARN, "Kubernetes": When.KUBERNETES}
    for kind, conf in given({}).items():
        several = (cases[kind], When.SEVERAL) if kind in cases else ()
        assert conf.items() >= defaults({}, *several).items(), kind
    for kind, conf in given(own).items():
        assert {name: conf[name] for name in own} == own, kind
    assert not defaults(own, *When)


@pytest.mark.parametrize(
    ("conf", "workers", "excludes"),
    [
        ({}, 2, "standalone YARN Kubernetes"),
        ({}, 1, "YARN Kubernetes"),
        ({"spark.executor.instances": "1", "spark.executor.cores": "1"}, 2, "standalone"),
        ({"spark.executor.instances": "1", "spark.executor.cores": "1"}, 1, ""),
        ({"spark.executor.instances": "1", "spark.executor.cores": "2"}, 2, ""),
        ({"spark.task.maxFailures": "2"}, 2, ""),
        ({"spark.task.maxFailures": "8"}, 2, "standalone YARN Kubernetes"),
        ({f"{EXCLUDE}.application.enabled": "false"}, 2, ""),
    ],
)
def test_a_sick_executor_is_left_out_where_there_is_another(conf: dict[str, str], workers: int, excludes: str) -> None:
    assert [kind for kind, found in given(conf, workers).items() if found.get(ENABLED)] == excludes.split()


def test_the_pod_is_kept_from_node_autoscalers_unless_template_or_conf_says_otherwise() -> None:
    evict, disrupt = "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"
    found = pod_of(job())["metadata"]["annotations"]
    assert (found[evict], found[disrupt]) == ("false", "true")
    template = {
        "metadata": {"annotations": {evict: "true", disrupt: "false"}},
        "spec": {"containers": [{"name": CONTAINER}]},
    }
    conf = {f"spark.kubernetes.driver.annotation.{disrupt}": "true"}
    found = pod_of(job(conf=conf), template=template)["metadata"]["annotations"]
    assert (found[evict], found[disrupt]) == ("true", "true")


def test_yarn_is_told_which_logs_it_may_take_while_the_driver_runs() -> None:
    def context(conf: dict[str, str]) -> object:
        asked = job(conf=conf)
        return submission_request(asked, YARN, "id", ContainerSizes.from_conf(conf))["log-aggregation-context"]

    assert context({}) == {"rolled-log-include-pattern": "stdout.1|stderr.1"}
    own = {"spark.yarn.rolledLog.includePattern": "spark.*", "spark.yarn.rolledLog.excludePattern": "gc.*"}
    assert context(own) == {"rolled-log-include-pattern": "spark.*", "rolled-log-exclude-pattern": "gc.*"}


def test_the_spark_that_is_installed_reads_each_name() -> None:
    of_others = ("spark.airflow.", "spark.hadoop.", "spark.kubernetes.")
    wanted = {each.name.encode() for each in DEFAULTS if not each.name.startswith(of_others)}
    found = set[bytes]()
    for jar in (Path(str(pyspark.__file__)).parent / "jars").glob("spark-*_2.1*.jar"):
        with ZipFile(jar) as classes:
            for name in classes.namelist():
                if name.endswith(
                    ("config/package$.class", "StaticSQLConf$.class", "config/Status$.class", "SparkLauncher.class")
                ):
                    found |= {each for each in wanted if each in classes.read(name)}
    assert found == wanted

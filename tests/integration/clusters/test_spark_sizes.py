"""Spark itself says how many executors a conf asks for, and how large their containers are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway

from tests.support.spark_confs import CONTAINERS, EXECUTORS, REFUSED_CONTAINERS, REFUSED_EXECUTORS

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A JVM with Spark's classes, and nothing of Spark started."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    yield gateway.jvm
    gateway.shutdown()
    gateway.proc.stdin.close()  # its end is that of the JVM
    gateway.proc.wait()


def test_executors_are_counted_as_spark_does(jvm: Any) -> None:
    assert [executors(jvm, conf) for conf, _ in EXECUTORS] == [number for _, number in EXECUTORS]
    for conf in REFUSED_EXECUTORS:
        with pytest.raises(Py4JJavaError, match="should be"):
            executors(jvm, conf)


def test_containers_are_as_large_as_spark_s(jvm: Any) -> None:
    assert [container(jvm, conf) for conf, _ in CONTAINERS] == [mebibytes for _, mebibytes in CONTAINERS]
    for conf in REFUSED_CONTAINERS:
        with pytest.raises(Py4JJavaError, match=r"should be|Size must be|is invalid|must be > 0"):
            container(jvm, conf)


def executors(jvm: Any, conf: dict[str, str]) -> int:
    utils = jvm.org.apache.spark.scheduler.cluster.SchedulerBackendUtils
    found: int = utils.getInitialTargetExecutorNumber(spark_conf(jvm, conf), utils.DEFAULT_NUMBER_EXECUTORS())
    return found


def container(jvm: Any, conf: dict[str, str]) -> int:
    """Return what YARN and Kubernetes are asked for, as `YarnAllocator` and `BasicExecutorFeatureStep` find it out."""
    profiles, given = module(jvm.org.apache.spark.resource, "ResourceProfile$"), spark_conf(jvm, conf)
    keys = module(jvm.org.apache.spark.internal.config, "package$")
    profiles.clearDefaultProfile()
    profile = profiles.getOrCreateDefaultProfile(given)
    least, factor = given.get(keys.EXECUTOR_MIN_MEMORY_OVERHEAD()), given.get(keys.EXECUTOR_MEMORY_OVERHEAD_FACTOR())
    nothing = module(jvm.scala.collection.immutable, "Map$").empty()
    asked = profiles.getResourcesForClusterManager(
        profile.id(), profile.executorResources(), least, factor, given, True, nothing
    )
    found: int = asked.totalMemMiB()
    return found


def spark_conf(jvm: Any, conf: dict[str, str]) -> Any:
    found = jvm.org.apache.spark.SparkConf(False)
    for key, value in conf.items():
        found.set(key, value)
    return found


def module(package: Any, name: str) -> Any:
    return getattr(getattr(package, name), "MODULE$")

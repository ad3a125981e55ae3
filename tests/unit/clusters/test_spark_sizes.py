"""What a Spark conf asks for. The numbers are Spark's: `tests/integration/clusters/test_spark_sizes.py` asks it."""

from __future__ import annotations

import pytest

from airflow_stream_provider.clusters.spark_sizes import count, executor_container, executors, mebibytes, overhead
from airflow_stream_provider.lifecycle.errors import SpecError
from tests.support.spark_confs import CONTAINERS, EXECUTORS, REFUSED_CONTAINERS, REFUSED_EXECUTORS


@pytest.mark.parametrize(("conf", "number"), EXECUTORS)
def test_executors_are_counted_as_spark_does(conf: dict[str, str], number: int) -> None:
    assert executors(conf) == number


@pytest.mark.parametrize("conf", [*REFUSED_EXECUTORS, {"spark.executor.instances": "0"}])
def test_what_is_no_number_of_executors_is_refused_and_names_its_key(conf: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=list(conf)[-1]):
        executors(conf)


@pytest.mark.parametrize(("conf", "mebibytes"), CONTAINERS)
def test_an_executor_s_container_is_as_large_as_spark_s(conf: dict[str, str], mebibytes: int) -> None:
    assert executor_container(conf) == mebibytes


@pytest.mark.parametrize("conf", REFUSED_CONTAINERS)
def test_what_spark_refuses_is_refused_and_names_its_key(conf: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=list(conf)[-1]):
        executor_container(conf)


@pytest.mark.parametrize(
    ("conf", "mebibytes"),
    [
        ({}, 819),
        ({"spark.kubernetes.memoryOverheadFactor": "0.6"}, 1228),
        ({"spark.kubernetes.memoryOverheadFactor": "0.6", "spark.driver.memoryOverheadFactor": "0.5"}, 1024),
        ({"spark.driver.memoryOverhead": "100m", "spark.driver.memoryOverheadFactor": "0.5"}, 100),
        ({"spark.driver.minMemoryOverhead": "1g"}, 1024),
        ({"spark.executor.memoryOverheadFactor": "0.9"}, 819),
    ],
)
def test_a_driver_s_overhead_is_its_own_key_s_then_that_of_both_then_the_default(
    conf: dict[str, str], mebibytes: int
) -> None:
    both = "spark.kubernetes.memoryOverheadFactor"
    assert overhead(conf, "driver", 2048, default=0.4, other_factor=both) == mebibytes


def test_the_key_of_another_kind_of_cluster_is_not_looked_at() -> None:
    assert overhead({"spark.kubernetes.memoryOverheadFactor": ""}, "executor", 1024) == 384


@pytest.mark.parametrize(
    ("value", "found"), [("512m", 512), ("2g", 2048), ("2GB", 2048), (" 2g ", 2048), ("7", 7), ("1", 1), ("4b", 1)]
)
def test_sizes(value: str, found: int) -> None:
    assert mebibytes({"size": value}, "size", bare="m") == found


@pytest.mark.parametrize("value", ["", "2 g", "1.5g", "2gib", "2bb", "g", "many", "-1g"])
def test_what_is_no_size(value: str) -> None:
    with pytest.raises(SpecError, match=r"size is .*, not a memory size"):
        mebibytes({"size": value}, "size", bare="m")


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "two"])
def test_what_is_no_number(value: str) -> None:
    with pytest.raises(SpecError, match=r"cores is .*, not a whole number of 1 or more"):
        count({"cores": value}, "cores")
    assert count({}, "cores") is None
    assert count({"cores": " 2 "}, "cores") == 2

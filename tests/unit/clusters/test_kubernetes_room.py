from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from airflow_stream_provider.clusters.driver_pod import asked_for, lacks, quantity
from airflow_stream_provider.lifecycle.errors import SpecError
from tests.support.driver_pods import pod_of
from tests.support.jobs import job

MIB = 2**20


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "all"}, "spec": spec, "status": {"hard": hard, "used": used or {}}}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        ("1.5", "1.5"),
        ("1Gi", str(2**30)),
        ("1e3", "1000"),
        ("128k", "128000"),
        ("1E", 10**18),
    ],
)
def test_quantities(text: str, amount: str) -> None:
    assert quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "many", "1Zi", "1.2.3"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(SpecError, match="no quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("conf", "cores", "memory", "pods"),
    [
        ({}, "3", 1433 + 2 * (1024 + 384), 3),
        ({"spark.executor.instances": "4", "spark.executor.cores": "2", "spark.executor.memory": "8g"}, "9", None, 5),
        ({"spark.kubernetes.executor.request.cores": "250m"}, "1.5", None, 3),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "1"}, "2", None, 2),
        ({"spark.dynamicAllocation.enabled": "true"}, "1", 1433, 1),
        ({"spark.executor.pyspark.memory": "1g", "spark.executor.instances": "1"}, "2", 1433 + 2048 + 384, 2),
    ],
)
def test_what_a_job_asks_for(conf: dict[str, str], cores: str, memory: int | None, pods: int) -> None:
    asked = asked_for(pod_of(job(conf=conf)), conf)
    assert (asked["cpu"], asked["pods"]) == (Decimal(cores), Decimal(pods))
    if memory is not None:
        assert asked["memory"] == memory * MIB


def test_a_number_of_executors_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match=r"spark.executor.instances is 'many'"):
        asked_for(pod_of(job()), {"spark.executor.instances": "many"})


def test_what_is_missing_is_told_with_the_quota_s_name() -> None:
    asked = {"cpu": Decimal(3), "memory": Decimal(4000 * MIB), "pods": Decimal(3)}
    assert lacks(asked, [quota({"requests.cpu": "4", "limits.memory": "8Gi", "services": "1", "pods": "3"})]) == []
    found = lacks(asked, [quota({"cpu": "4", "requests.memory": "8Gi"}, {"cpu": "1500m", "requests.memory": "5Gi"})])
    assert found == [
        "2.5 of cpu are free in the quota all, and the driver and its executors ask for 3",
        "3072 MiB of requests.memory are free in the quota all, and the driver and its executors ask for 4000 MiB",
    ]
    assert len(lacks(asked, [quota({"count/pods": "2"}, scopes=["NotTerminating"])])) == 1
    assert lacks(asked, [quota({"pods": "0"}, scopes=["Terminating"])]) == []
    assert lacks(asked, [quota({"pods": "0"}, scopeSelector={"matchExpressions": []})]) == []

"""Whether YARN has room, by what a real ResourceManager has said of its queues."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.clusters.yarn_room import ContainerSizes, Queue, fits, leaf_queues
from airflow_stream_provider.lifecycle.errors import SpecError

SIZES = ContainerSizes(512, 896, 1, 2, 896, 1)


def memory(mebibytes: int, **more: Any) -> dict[str, Any]:
    return {"memory": mebibytes, "vCores": 1, **more}


def queue(**changes: Any) -> Queue:
    smallest = {"resourceInformation": [{"name": "memory-mb", "minimumAllocation": 512}]}
    fields = {
        "queuePath": "root.default",
        "queueName": "default",
        "state": "RUNNING",
        "maximumAllocation": memory(4096, vCores=4),
        "maxEffectiveCapacity": memory(8192),
        "resourcesUsed": memory(0),
        "AMResourceLimit": memory(2048),
        "usedAMResource": memory(0),
        "userAMResourceLimit": memory(2048),
        "users": {},
        "capacities": {
            "queueCapacitiesByPartition": [{"configuredMinResource": {"resourceInformations": smallest}}],
        },
    }
    return Queue({**fields, **changes})


@pytest.mark.parametrize(
    ("conf", "sizes"),
    [
        ({}, ContainerSizes(1024, 1408, 1, 2, 1408, 1)),
        (
            # A number without a unit is MiB for both, other than on a standalone cluster.
            {"spark.driver.memory": "512", "spark.executor.memory": "8g", "spark.executor.instances": "3"},
            ContainerSizes(512, 896, 1, 3, 8192 + 819, 1),
        ),
        (
            {
                "spark.driver.memoryOverhead": "1g",
                "spark.executor.memoryOverheadFactor": "0.5",
                "spark.driver.cores": "2",
            },
            ContainerSizes(1024, 2048, 2, 2, 1536, 1),
        ),
        (
            {"spark.executor.pyspark.memory": "256m", "spark.memory.offHeap.size": "1g", "spark.executor.cores": "4"},
            ContainerSizes(1024, 1408, 1, 2, 1664, 4),
        ),
        (
            {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"},
            ContainerSizes(1024, 1408, 1, 2, 2432, 1),
        ),
        ({"spark.dynamicAllocation.enabled": "true"}, ContainerSizes(1024, 1408, 1, 0, 1408, 1)),
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.minExecutors": "1",
                "spark.dynamicAllocation.initialExecutors": "4",
            },
            ContainerSizes(1024, 1408, 1, 4, 1408, 1),
        ),
    ],
)
def test_a_container_is_the_heap_and_what_spark_adds(conf: dict[str, str], sizes: ContainerSizes) -> None:
    assert ContainerSizes.from_conf(conf) == sizes


def test_a_factor_that_is_no_number_is_refused() -> None:
    with pytest.raises(SpecError, match=r"spark.driver.memoryOverheadFactor is 'x'"):
        ContainerSizes.from_conf({"spark.driver.memoryOverheadFactor": "x"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"usedAMResource": memory(1024)}, ""),
        # 896 MiB are 1024 of YARN's.
        ({"usedAMResource": memory(1025)}, "its drivers may have 2048 MiB together"),
        # One driver is let in, however large.
        ({"AMResourceLimit": memory(512), "userAMResourceLimit": memory(512)}, ""),
        ({"AMResourceLimit": memory(512), "usedAMResource": memory(1024)}, "no room for another driver:"),
        (
            {"users": {"user": [{"username": "alice", "AMResourceUsed": memory(1536)}]}},
            "no room for another driver of alice",
        ),
        ({"users": {"user": [{"username": "bob", "AMResourceUsed": memory(1536)}]}}, ""),
        ({"resourcesUsed": memory(8192 - 3 * 1024)}, ""),
        ({"resourcesUsed": memory(8193 - 3 * 1024)}, "has no room: 5121 of its 8192 MiB are in use"),
    ],
)
def test_a_queue_says_why_it_has_no_room(changes: dict[str, Any], said: str) -> None:
    lack = queue(**changes).lack(SIZES, "alice")
    assert said in lack
    assert bool(lack) is bool(said)
    assert queue(**changes).refusal(SIZES) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": "STOPPED"}, "is STOPPED"),
        ({"maximumAllocation": memory(512, vCores=4)}, "a container of 896 MiB"),
        ({"maximumAllocation": memory(4096, vCores=0)}, "a container of 1 cores"),
    ],
)
def test_a_queue_says_why_it_never_takes_such_a_job(changes: dict[str, Any], said: str) -> None:
    assert said in queue(**changes).refusal(SIZES)


def test_what_a_queue_does_not_say_is_not_held_against_it() -> None:
    assert Queue({"queueName": "default"}).refusal(SIZES) == ""
    assert Queue({"queueName": "default"}).lack(SIZES, "alice") == ""
    assert Queue({"queueName": "default"}).path == "default"


def test_leaf_queues_are_found_however_deep() -> None:
    leaf = {"queuePath": "root.a.b", "queueType": "leaf"}
    inner = {"queuePath": "root.a", "queueType": "parent", "queues": {"queue": [leaf]}}
    empty = {"queuePath": "root.c", "queueType": "parent"}
    root = {"type": "capacityScheduler", "queues": {"queue": [inner, empty, {"queuePath": "root.d"}]}}
    found = leaf_queues({"scheduler": {"schedulerInfo": root}})
    assert found is not None
    assert [each.path for each in found] == ["root.a.b", "root.d"]
    assert leaf_queues({"scheduler": {"schedulerInfo": {"type": "fairScheduler"}}}) is None
    assert leaf_queues({}) is None


@pytest.mark.parametrize(
    ("free", "there"),
    [((2688,), True), ((896, 896, 896), True), ((896, 1792), True), ((895, 1792), False), ((), False)],
)
def test_each_container_is_on_one_node(free: tuple[int, ...], there: bool) -> None:
    assert fits(SIZES, free) is there


def test_sizes_are_told_for_a_person() -> None:
    assert str(SIZES) == "896 MiB for the driver, 2 executors of 896 MiB each"
    assert str(ContainerSizes(1, 2, 1, 1, 3, 1)) == "2 MiB for the driver, 1 executor of 3 MiB"

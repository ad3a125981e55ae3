"""Spark confs with what Spark 4.0 makes of them: held against this package, and against Spark itself."""

from __future__ import annotations

_INSTANCES, _DYNAMIC = "spark.executor.instances", "spark.dynamicAllocation"
_ON = {f"{_DYNAMIC}.enabled": "true"}
_FACTOR, _OVERHEAD = "spark.executor.memoryOverheadFactor", "spark.executor.memoryOverhead"
_OFF_HEAP = "spark.memory.offHeap"

EXECUTORS: list[tuple[dict[str, str], int]] = [
    ({}, 2),
    ({_INSTANCES: "3"}, 3),
    ({_INSTANCES: " 3 "}, 3),
    ({_INSTANCES: "3", f"{_DYNAMIC}.enabled": "false", f"{_DYNAMIC}.minExecutors": "5"}, 3),
    (_ON, 0),
    ({f"{_DYNAMIC}.enabled": " TRUE "}, 0),
    ({**_ON, _INSTANCES: "0"}, 0),
    ({**_ON, _INSTANCES: "3", f"{_DYNAMIC}.minExecutors": "1"}, 3),
    ({**_ON, f"{_DYNAMIC}.minExecutors": "1", f"{_DYNAMIC}.initialExecutors": "4"}, 4),
    ({**_ON, f"{_DYNAMIC}.minExecutors": "5", f"{_DYNAMIC}.initialExecutors": "4"}, 5),
]
"""How many executors are asked for at the start."""

REFUSED_EXECUTORS: list[dict[str, str]] = [
    {_INSTANCES: ""},
    {_INSTANCES: "many"},
    {f"{_DYNAMIC}.enabled": "yes"},
    {f"{_DYNAMIC}.enabled": ""},
    {**_ON, f"{_DYNAMIC}.minExecutors": "x"},
    {**_ON, f"{_DYNAMIC}.minExecutors": ""},
]
"""The key that is wrong is the last one."""

CONTAINERS: list[tuple[dict[str, str], int]] = [
    ({}, 1408),
    ({"spark.executor.memory": "8g"}, 9011),
    ({"spark.executor.memory": "2048"}, 2432),
    ({"spark.executor.memory": "2GB"}, 2432),
    ({_FACTOR: " 0.5 "}, 1536),
    ({_OVERHEAD: "1g"}, 2048),
    ({_OVERHEAD: "100"}, 1124),
    ({_OVERHEAD: "0"}, 1024),
    ({_OVERHEAD: "100", _FACTOR: "0.5"}, 1124),
    ({"spark.executor.minMemoryOverhead": "1g"}, 2048),
    ({"spark.executor.pyspark.memory": "1g"}, 2432),
    ({f"{_OFF_HEAP}.size": "1g"}, 1408),
    ({f"{_OFF_HEAP}.enabled": "true", f"{_OFF_HEAP}.size": "1g"}, 2432),
    ({f"{_OFF_HEAP}.enabled": "true", f"{_OFF_HEAP}.size": "1073741824"}, 2432),
]
"""MiB of the container of an executor that runs Python."""

REFUSED_CONTAINERS: list[dict[str, str]] = [
    {"spark.executor.memory": ""},
    {"spark.executor.memory": "2 g"},
    {"spark.executor.memory": "1.5g"},
    {_FACTOR: ""},
    {_FACTOR: "x"},
    {_FACTOR: "0"},
    {_FACTOR: "-1"},
    {_FACTOR: "NaN"},
    {_OVERHEAD: ""},
    {"spark.executor.minMemoryOverhead": ""},
    {f"{_OFF_HEAP}.enabled": "true"},
]
"""The key that is wrong is the last one."""

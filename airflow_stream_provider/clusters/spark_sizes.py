"""Reckon as Spark does what a job's Spark conf asks for, and whether it fits on a standalone cluster.

`tests/integration/clusters/test_spark_sizes.py` holds it against Spark's own classes. A key without a value is refused,
as Spark does: only one that is not there has a default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_stream_provider.clusters.spark_defaults import DEFAULT_CORES_MAX
from airflow_stream_provider.lifecycle.errors import SpecError

DEFAULT_EXECUTORS = 2
OVERHEAD_FACTOR = 0.1
_LEAST_OVERHEAD = "384m"
_DYNAMIC = "spark.dynamicAllocation"
_OFF_HEAP = "spark.memory.offHeap"
_PYTHON = "spark.executor.pyspark.memory"
_UNITS = {"b": 2**0, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SIZE = re.compile(r"(\d+)(?:([kmgtp])b?|(b))?", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"\d+", re.ASCII)


def count(conf: Mapping[str, str], key: str) -> int | None:
    """Return a number of a Spark conf, None if it is not there.

    :raises SpecError: it is no whole number of 1 or more.
    """
    return _number(conf, key, least=1) if key in conf else None


def mebibytes(conf: Mapping[str, str], key: str, *, bare: str, default: str = "1g") -> int:
    """Return a memory size of a Spark conf in MiB, at least 1.

    :param bare: the unit of a number without one.
    :raises SpecError: it is no size.
    """
    return max(1, _size(conf, key, bare, default))


def executors(conf: Mapping[str, str]) -> int:
    """Return how many executors Spark asks for at the start, on a cluster that counts them.

    :raises SpecError: what the conf says is no number, or 0 where nothing would add any.
    """
    instances = "spark.executor.instances"
    if not _enabled(conf, f"{_DYNAMIC}.enabled"):
        return count(conf, instances) or DEFAULT_EXECUTORS
    keys = (instances, f"{_DYNAMIC}.minExecutors", f"{_DYNAMIC}.initialExecutors")
    return max((_number(conf, key, least=0) for key in keys if key in conf), default=0)


def overhead(
    conf: Mapping[str, str], role: str, heap: int, *, default: float = OVERHEAD_FACTOR, other_factor: str = ""
) -> int:
    """Return the MiB that the container of a driver or an executor has besides its heap.

    :param role: ``driver`` or ``executor``.
    :param heap: in MiB.
    :param default: part of the heap, if the conf does not say otherwise.
    :param other_factor: a key that says so for both roles, where the role's own key is not there.
    :raises SpecError: what the conf says is no size, or no number above 0.
    """
    own = f"spark.{role}.memoryOverhead"
    if own in conf:
        return _size(conf, own, "m", "")
    factor = next((_factor(conf, key) for key in (f"{own}Factor", other_factor) if key in conf), default)
    return max(_size(conf, f"spark.{role}.minMemoryOverhead", "m", _LEAST_OVERHEAD), math.floor(factor * heap))


def executor_container(conf: Mapping[str, str], *, other_factor: str = "") -> int:
    """Return the MiB of an executor's container: heap, overhead, memory off the heap, and of its Python.

    :param other_factor: as for `overhead`.
    :raises SpecError: what the conf says is no size, or no number above 0.
    """
    heap = mebibytes(conf, "spark.executor.memory", bare="m")
    found = heap + overhead(conf, "executor", heap, other_factor=other_factor)
    if _enabled(conf, f"{_OFF_HEAP}.enabled"):
        off_heap = _size(conf, f"{_OFF_HEAP}.size", "b", "0")
        if not off_heap:
            raise SpecError(
                f"The Spark conf has {_OFF_HEAP}.enabled and no {_OFF_HEAP}.size.",
                next_step="Write a size such as 512m or 2g.",
                key=f"{_OFF_HEAP}.size",
            )
        found += off_heap
    return found + (_size(conf, _PYTHON, "m", "") if _PYTHON in conf else 0)


def _number(conf: Mapping[str, str], key: str, *, least: int) -> int:
    value = str(conf[key]).strip()
    if not _WHOLE.fullmatch(value) or int(value) < least:
        raise SpecError(
            f"The Spark conf {key} is {value!r}, not a whole number of {least} or more.",
            next_step="Correct it, or leave it out.",
            key=key,
        )
    return int(value)


def _size(conf: Mapping[str, str], key: str, bare: str, default: str) -> int:
    value = str(conf.get(key, default)).strip()
    match = _SIZE.fullmatch(value)
    if match is None:
        raise SpecError(
            f"The Spark conf {key} is {value!r}, not a memory size.",
            next_step="Write a size such as 512m or 2g.",
            key=key,
        )
    return int(match[1]) * _UNITS[(match[2] or match[3] or bare).lower()] // 2**20


def _factor(conf: Mapping[str, str], key: str) -> float:
    value = str(conf[key]).strip()
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise SpecError(
            f"The Spark conf {key} is {value!r}, not a number above 0.",
            next_step="Write a part of the heap, such as 0.1.",
            key=key,
        )
    return found


def _enabled(conf: Mapping[str, str], key: str) -> bool:
    value = str(conf.get(key, "false")).strip().lower()
    if value not in ("true", "false"):
        raise SpecError(f"The Spark conf {key} is {value!r}.", next_step="Write true or false.", key=key)
    return value == "true"


# Without spark.cores.max Spark gives an application all free cores, and the next application gets none.


@dataclass(frozen=True)
class FreeResources:
    """The free resources of one worker.

    :param cores: free cores.
    :param memory: free memory, in MiB.
    """

    cores: int
    memory: int


@dataclass(frozen=True)
class ResourceRequest:
    """The resources that a job asks for.

    :param driver_cores: cores of the driver; Spark's default is 1.
    :param driver_memory: memory of the driver, in MiB; Spark's default is 1024.
    :param cores_max: cores of all executors together; default `DEFAULT_CORES_MAX`.
    :param executor_cores: cores of one executor. None, the default: each worker runs one executor with all the cores
        that the application gets there.
    :param executor_memory: memory of one executor, in MiB; Spark's default is 1024.
    """

    driver_cores: int
    driver_memory: int
    cores_max: int
    executor_cores: int | None
    executor_memory: int

    @classmethod
    def from_conf(cls, conf: Mapping[str, str]) -> ResourceRequest:
        """Read the resources from a job's Spark conf, with Spark's defaults for missing keys.

        :raises SpecError: a number of cores or a memory size is not valid.
        """
        return cls(
            driver_cores=count(conf, "spark.driver.cores") or 1,
            # The master reads a bare number as bytes for the driver and as MiB for executors (Utils.memoryStringToMb,
            # EXECUTOR_MEMORY.bytesConf(MiB)).
            driver_memory=mebibytes(conf, "spark.driver.memory", bare="b"),
            cores_max=count(conf, "spark.cores.max") or DEFAULT_CORES_MAX,
            executor_cores=count(conf, "spark.executor.cores"),
            executor_memory=mebibytes(conf, "spark.executor.memory", bare="m"),
        )

    def hosts(self, workers: int) -> int:
        """Return on how many of so many workers executors run: Spark spreads them out."""
        return min(self.cores_max // (self.executor_cores or 1), workers)

    def fits(self, workers: Sequence[FreeResources]) -> bool:
        """Return whether the workers have room for the driver and all executors at the same time."""
        for index, worker in enumerate(workers):
            if worker.cores >= self.driver_cores and worker.memory >= self.driver_memory:
                left = list(workers)
                left[index] = replace(
                    worker, cores=worker.cores - self.driver_cores, memory=worker.memory - self.driver_memory
                )
                if self._executors_fit(left):
                    return True
        return False

    def _executors_fit(self, workers: Sequence[FreeResources]) -> bool:
        roomy = [worker for worker in workers if worker.memory >= self.executor_memory]
        size = self.executor_cores
        if size is None:
            return sum(worker.cores for worker in roomy) >= self.cores_max
        executors = sum(min(worker.cores // size, worker.memory // self.executor_memory) for worker in roomy)
        return executors >= max(1, self.cores_max // size)

    def __str__(self) -> str:
        each = f" in executors of {self.executor_cores}" if self.executor_cores else ""
        return (
            f"{_cores(self.driver_cores)} and {self.driver_memory} MiB for the driver, "
            f"{_cores(self.cores_max)}{each} with {self.executor_memory} MiB each for the executors"
        )


def _cores(number: int) -> str:
    return f"{number} core" if number == 1 else f"{number} cores"

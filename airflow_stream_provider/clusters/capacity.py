"""Check whether a driver and its executors fit on a standalone cluster, by the placement rules of Spark's master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_stream_provider.clusters.spark_sizes import count, mebibytes

# Without spark.cores.max Spark gives an application all free cores, and the next application gets none.
DEFAULT_CORES_MAX = 2


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

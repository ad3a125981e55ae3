"""Check whether a driver and its executors find room on YARN, as far as the ResourceManager says.

Memory only: by default YARN shares out nothing else (DefaultResourceCalculator). Only queues of the CapacityScheduler
are understood; with another scheduler only the nodes are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.clusters.spark_sizes import count, executor_container, executors, mebibytes, overhead


@dataclass(frozen=True)
class ContainerSizes:
    """The containers that a job asks for; memory in MiB.

    :param driver_heap: memory of the driver's JVM.
    :param driver_memory: of its container.
    :param executors: how many are asked for at the start.
    :param executor_memory: of the container of one.
    """

    driver_heap: int
    driver_memory: int
    driver_cores: int
    executors: int
    executor_memory: int
    executor_cores: int

    @classmethod
    def from_conf(cls, conf: Mapping[str, str]) -> ContainerSizes:
        """Read them from a job's Spark conf, with Spark's defaults for missing keys.

        :raises SpecError: a number, a size or a factor is not valid.
        """
        driver = mebibytes(conf, "spark.driver.memory", bare="m")
        return cls(
            driver_heap=driver,
            driver_memory=driver + overhead(conf, "driver", driver),
            driver_cores=count(conf, "spark.driver.cores") or 1,
            executors=executors(conf),
            executor_memory=executor_container(conf),
            executor_cores=count(conf, "spark.executor.cores") or 1,
        )

    def __str__(self) -> str:
        number = "1 executor" if self.executors == 1 else f"{self.executors} executors"
        each = "" if self.executors == 1 else " each"
        return f"{self.driver_memory} MiB for the driver, {number} of {self.executor_memory} MiB{each}"


@dataclass(frozen=True)
class Queue:
    """A leaf queue of the CapacityScheduler, as ``/scheduler`` lists it."""

    fields: Mapping[str, Any]

    @property
    def path(self) -> str:
        """Its full name, such as ``root.default``."""
        return str(self.fields.get("queuePath") or self.fields.get("queueName"))

    def refusal(self, sizes: ContainerSizes) -> str:
        """Return why it takes no such job, however little runs, as a sentence; empty: nothing is known against it."""
        state = self.fields.get("state", "RUNNING")
        if state != "RUNNING":
            return f"The queue {self.path} is {state}."
        largest = self.fields.get("maximumAllocation") or {}
        asked = (
            ("memory", "MiB", max(sizes.driver_memory, sizes.executor_memory)),
            ("vCores", "cores", max(sizes.driver_cores, sizes.executor_cores)),
        )
        for name, unit, size in asked:
            if name in largest and size > largest[name]:
                return (
                    f"The job asks for a container of {size} {unit}, and the queue {self.path} gives none of more than "
                    f"{largest[name]}."
                )
        return ""

    def lack(self, sizes: ContainerSizes, user: str) -> str:
        """Return why it has no room for such a job now, as a sentence; empty: nothing is known against it."""
        return self._no_driver(sizes, user) or self._full(sizes)

    def _no_driver(self, sizes: ContainerSizes, user: str) -> str:
        """YARN lets drivers have a part of the queue only, and one is let in whatever its size."""
        users = (self.fields.get("users") or {}).get("user") or ()
        mine: Mapping[str, Any] = next((each for each in users if each.get("username") == user), {})
        shares = (
            ("usedAMResource", self.fields, "AMResourceLimit", ""),
            ("AMResourceUsed", mine, "userAMResourceLimit", f" of {user}"),
        )
        for used_name, source, limit_name, whose in shares:
            used, limit = _memory(source.get(used_name)), _memory(self.fields.get(limit_name))
            if used and limit is not None and used + self._rounded(sizes.driver_memory) > limit:
                return (
                    f"The queue {self.path} has no room for another driver{whose}: its drivers may have {limit} MiB "
                    f"together (maximum-am-resource-percent), {used} are in use, and this one needs "
                    f"{self._rounded(sizes.driver_memory)}."
                )
        return ""

    def _full(self, sizes: ContainerSizes) -> str:
        most, used = _memory(self.fields.get("maxEffectiveCapacity")), _memory(self.fields.get("resourcesUsed"))
        needed = self._rounded(sizes.driver_memory) + sizes.executors * self._rounded(sizes.executor_memory)
        if most is None or used is None or needed <= most - used:
            return ""
        return f"The queue {self.path} has no room: {used} of its {most} MiB are in use; the job asks for {sizes}."

    def _rounded(self, memory: int) -> int:
        """YARN rounds containers up to a multiple of the smallest one."""
        return -(-memory // self.smallest) * self.smallest

    @property
    def smallest(self) -> int:
        """Memory of the smallest container; 1 when that is not known."""
        for partition in (self.fields.get("capacities") or {}).get("queueCapacitiesByPartition") or ():
            known = (partition.get("configuredMinResource") or {}).get("resourceInformations") or {}
            for resource in known.get("resourceInformation") or ():
                if resource.get("name") == "memory-mb" and resource.get("minimumAllocation"):
                    return int(resource["minimumAllocation"])
        return 1


def leaf_queues(scheduler: Mapping[str, Any]) -> list[Queue] | None:
    """Return the leaf queues of an answer of ``/scheduler``; None: it is not the CapacityScheduler's."""
    root = (scheduler.get("scheduler") or {}).get("schedulerInfo") or {}
    return [Queue(each) for each in _leaves(root)] if root.get("type") == "capacityScheduler" else None


def fits(sizes: ContainerSizes, free: Sequence[int]) -> bool:
    """Return whether nodes with so much free memory have room for driver and executors, the largest first."""
    left = sorted(free, reverse=True)
    for size in sorted([sizes.driver_memory, *[sizes.executor_memory] * sizes.executors], reverse=True):
        place = next((index for index, memory in enumerate(left) if memory >= size), None)
        if place is None:
            return False
        left[place] -= size
    return True


def _leaves(queue: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for child in (queue.get("queues") or {}).get("queue") or ():
        if (child.get("queues") or {}).get("queue"):
            yield from _leaves(child)
        elif child.get("queueType", "leaf") == "leaf":
            yield child


def _memory(resource: object) -> int | None:
    return int(resource["memory"]) if isinstance(resource, Mapping) and "memory" in resource else None

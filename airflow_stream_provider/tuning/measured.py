"""The measured batches of one query, read from the `environment` of its driver and the `vitals` of its heartbeat."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# A query counts as measured after so many batches with data. The first ones do not count: they load classes and fill
# caches.
ENOUGH, WARMING = 10, 3
_SIZE = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class Measured:
    """One query: medians of its last batches, and what it and its driver are set to. None = not known.

    :param name: of the query.
    :param conf: settings of the application, as set.
    :param options: of its Kafka sources and its sink, by name in lower case.
    :param seen: the query in the vitals, as the driver wrote it.
    :param kept: the query in the environment.
    :param described: the query in the `standby` record.
    :param cores: of the executors.
    :param memory: of the executors' heaps, or the driver's in local mode, in bytes.
    :param spark: Spark's version.
    :param gc_share: of the driver's time.
    """

    name: str
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, Any] = field(default_factory=dict)
    cores: int | None = None
    memory: int | None = None
    spark: tuple[int, ...] = ()
    gc_share: float | None = None

    @property
    def enough(self) -> bool:
        """Whether so many batches are measured that a rule may go by them."""
        known = self.number("records") > 0 and self.seconds("triggerExecution") > 0
        return known and self.number("batches") >= ENOUGH + WARMING

    def number(self, name: str) -> float:
        """Return a number of the vitals; 0.0 when it is not known."""
        found = self.seen.get(name)
        known = isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found)
        return float(found or 0) if known else 0.0

    def knows(self, name: str) -> bool:
        """Whether the vitals have this number."""
        return self.seen.get(name) is not None

    def seconds(self, *phases: str) -> float:
        """Return the sum of the medians of these phases of a batch (`durationMs`), in seconds."""
        durations = self.seen.get("durations") or {}
        return sum(float(durations.get(each) or 0.0) for each in phases) / 1000

    def share(self, *phases: str) -> float:
        """Return the share of a batch that these phases take."""
        return self.seconds(*phases) / self.seconds("triggerExecution")

    @property
    def line(self) -> tuple[float, float] | None:
        """Seconds of a batch without records, and of each record; None: batches of one size do not tell."""
        found = self.seen.get("fit")
        fixed, each = map(float, found) if found and len(found) == 2 else (0.0, 0.0)
        return (fixed, each) if fixed > 0 and each > 0 else None

    @property
    def partitions(self) -> int:
        """Partitions of the state; 0 without state."""
        return int(self.number("state_partitions") or self.kept.get("state_partitions") or 0)

    @property
    def stateless(self) -> bool:
        """Whether no operator of it keeps state."""
        return not self.partitions and not self.described.get("fingerprint")

    @property
    def kafka_tasks(self) -> int:
        """Tasks that read Kafka in each batch; 0: not known."""
        return max(int(self.kept.get("kafka_partitions") or 0), self.option("minpartitions"))

    def option(self, name: str) -> int:
        """Return a number among the options of its sources; 0: it is not set, or is none."""
        found = str(self.options.get(name) or "")
        return int(found) if found.isdigit() else 0

    @property
    def rocksdb(self) -> bool:
        """Whether its state is in RocksDB, and not in the heap."""
        provider = "spark.sql.streaming.stateStore.providerClass"
        named = (self.described.get("conf") or {}).get(provider) or self.conf.get(provider) or ""
        return "RocksDB" in named

    @property
    def per_record(self) -> float:
        """Seconds of a batch for each record."""
        return self.seconds("triggerExecution") / self.number("records")


def measured(
    environment: Mapping[str, Any], vitals: Mapping[str, Any], described: Sequence[Mapping[str, Any]] = ()
) -> list[Measured]:
    """Return every query that the vitals tell of.

    :param environment: of the driver, as its `standby` record has it.
    :param vitals: as its heartbeat has them.
    :param described: `queries` of that record.
    """
    conf = {str(name): str(value) for name, value in (environment.get("conf") or {}).items()}
    kept, by_name = environment.get("queries") or {}, {str(each.get("name")): each for each in described}
    cores = vitals.get("cores") or environment.get("cores")
    return [
        Measured(
            name=name,
            conf=conf,
            options={str(key).lower(): str(each) for key, each in (kept.get(name, {}).get("options") or {}).items()},
            seen=seen,
            kept=kept.get(name, {}),
            described=by_name.get(name, {}),
            cores=int(cores) if cores else None,
            memory=_memory(conf, vitals, environment),
            spark=tuple(int(each) for each in re.findall(r"\d+", str(environment.get("spark") or ""))[:2]),
            gc_share=vitals.get("gc_share"),
        )
        for name, seen in (vitals.get("queries") or {}).items()
    ]


def _memory(conf: Mapping[str, str], vitals: Mapping[str, Any], environment: Mapping[str, Any]) -> int | None:
    if vitals.get("executor_memory"):
        return int(vitals["executor_memory"])
    if conf.get("spark.master", "").startswith("local"):
        found = vitals.get("heap_max") or environment.get("heap_max")
        return int(found) if found else None
    size, executors = _SIZE.fullmatch(conf.get("spark.executor.memory", "1g")), vitals.get("executors")
    return int(size[1]) * _UNITS[size[2].lower()] * int(executors) if size and executors else None

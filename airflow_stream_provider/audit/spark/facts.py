"""The facts that the checks of Spark examine: a driver's record and heartbeat, and its cluster. Values only, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_stream_provider.audit.check import NotVerifiable
from airflow_stream_provider.audit.spark.defaults import default
from airflow_stream_provider.clusters.cluster import ClusterFacts
from airflow_stream_provider.lifecycle.environment import Environment, QueryEnvironment
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SIZES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
# The names of units in a script, in the singular.
_WORDS = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d"}


# A template that begins so has settings of the stream's YAML.
CONF = "conf:\n"


def conf(*settings: str) -> str:
    """Return the template of a change of `conf` in the stream's YAML.

    :param settings: such as ``spark.speculation=false``, with names in braces that are filled in later. One without a
        value is removed.
    """
    return CONF + "\n".join(settings)


def seconds(text: str, unit: str = "s") -> float:
    """Return a duration as Spark writes it, such as ``30min``, in seconds; one without a unit is in `unit`.

    :raises NotVerifiable: it is none.
    """
    number, name = _parsed(text)
    name = name or unit
    name = _WORDS.get(name.removesuffix("s"), name)
    if name not in _UNITS:
        raise NotVerifiable(f"{text!r} is no duration.")
    return number * _UNITS[name]


def size(text: str, unit: str = "b") -> int:
    """Return a size as Spark writes it, such as ``2g``, in bytes; one without a unit is in `unit`.

    :raises NotVerifiable: it is none.
    """
    number, name = _parsed(text)
    name = (name or unit).removesuffix("b").removesuffix("i")
    if name not in _SIZES:
        raise NotVerifiable(f"{text!r} is no size.")
    return int(number * _SIZES[name])


def _parsed(text: str) -> tuple[float, str]:
    found = _NUMBER.fullmatch(text.strip().lower())
    if found is None:
        raise NotVerifiable(f"{text!r} is no number with a unit.")
    return float(found[1]), found[2]


@dataclass(frozen=True)
class Measured:
    """The part of the facts that a driver measures while it runs, by name; empty: it has measured nothing."""

    vitals: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def measured(self, name: str) -> Any:
        """Return a vital.

        :raises NotVerifiable: it was not measured yet.
        """
        found = self.vitals.get(name)
        if found is None:
            raise NotVerifiable(f"{name} was not measured: no driver of this version has run for long enough.")
        return found


@dataclass(frozen=True)
class Query(Measured):
    """A query of the driver.

    :param sink: kind of its sink, such as ``foreachBatch``.
    :param file_sink: whether Spark writes it with its file sink; None: not known.
    :param trigger: as the script gave it, such as ``{"processingTime": "10 seconds"}``.
    :param batch_seconds: how long its last batch took; None: not known.
    :param of: what the driver's record says of it.
    """

    name: str
    sink: str = ""
    file_sink: bool | None = None
    trigger: Mapping[str, Any] = field(default_factory=dict)
    batch_seconds: float | None = None
    of: QueryEnvironment = field(default_factory=QueryEnvironment)

    @property
    def title(self) -> str:
        """Its name in a finding."""
        return f"query {self.name}"

    @property
    def trigger_seconds(self) -> float:
        """How far apart its triggers are; 0 without an interval."""
        interval = self.trigger.get("processingTime")
        return seconds(str(interval)) if interval else 0.0


@dataclass(frozen=True)
class SparkFacts(Measured):
    """The facts about a stream's Spark.

    :param at: when they were read, in seconds since 1970.
    :param environment: of the driver.
    :param queries: of the driver.
    :param hours: since the driver has started the queries; None: not known.
    :param cluster: what its cluster says of itself.
    """

    at: float = 0.0
    environment: Environment = field(default_factory=Environment)
    queries: tuple[Query, ...] = ()
    hours: float | None = None
    cluster: ClusterFacts = field(default_factory=ClusterFacts)

    title = "the driver"

    @property
    def kind(self) -> str:
        """The kind of cluster: ``standalone``, ``yarn``, ``kubernetes`` or ``local``; empty: not known."""
        master = self.environment.conf.get("spark.master", "")
        kinds = {"spark:": "standalone", "yarn": "yarn", "k8s:": "kubernetes", "local": "local"}
        return next((kind for start, kind in kinds.items() if master.startswith(start)), "")

    def are_set(self, name: str) -> list[str]:
        """Return the settings that are set, of this name or, where it ends in a dot, this beginning."""
        return [each for each in self.environment.conf if each == name or (name[-1] == "." and each.startswith(name))]

    def setting(self, name: str) -> str:
        """Return a setting of the driver, or Spark's default in its version; empty: it is not set, and has none."""
        found = self.environment.conf.get(name)
        return (default(name, self.environment.spark) or "") if found is None else found

    def flag(self, name: str) -> bool:
        """Return whether a setting is ``true``."""
        return self.setting(name).lower() == "true"

    def number(self, name: str, otherwise: int = 0) -> int:
        """Return a setting as a whole number; `otherwise` where it is not set and has no default."""
        value = self.setting(name) or str(otherwise)
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise NotVerifiable(f"{name} is {value!r}, which is no number.")
        return int(value)

    @property
    def executors(self) -> int:
        """How many executors it has, or asks for.

        :raises NotVerifiable: nothing tells.
        """
        if self.vitals.get("executors"):
            return int(self.vitals["executors"])
        if self.kind == "local":
            return 1
        if self.environment.conf.get("spark.executor.instances"):
            return self.number("spark.executor.instances")
        cores, each = self.number("spark.cores.max"), self.number("spark.executor.cores")
        if cores and each:
            return max(1, cores // each)
        raise NotVerifiable("How many executors there are is not known before the driver has measured it.")

    def fix(self, template: str, subject: object, values: Mapping[str, object]) -> str:
        """Return the change of a template: a diff of `conf` for one of `conf`, any other text as it is."""
        text = template.format_map(values)
        if not text.startswith(CONF):
            return text
        lines = []
        for word in text.removeprefix(CONF).splitlines():
            name, _, value = word.partition("=")
            old = self.environment.conf.get(name)
            lines += [f'-  {name}: "{old}"'] if old is not None else []
            lines += [f'+  {name}: "{value}"'] if value else []
        return "\n".join(["", " conf:", *lines])


def facts_of(
    at: float,
    environment: Environment,
    described: Sequence[Mapping[str, Any]],
    beat: Heartbeat,
    cluster: ClusterFacts,
) -> SparkFacts:
    """Return the facts from what a driver has recorded, its last heartbeat and its cluster.

    :param described: the queries of its `standby` record.
    :param beat: its last heartbeat; `Heartbeat()`: there is none.
    """
    vitals = beat.vitals.to_json() if beat.vitals is not None else {}
    progress = {each.name: each for each in beat.queries}
    measured = vitals.get("queries") or {}
    queries = tuple(
        Query(
            name := str(each.get("name", "")),
            str(each.get("sink") or ""),
            each.get("file_sink"),
            each.get("trigger") or {},
            progress[name].batch_seconds if name in progress else None,
            environment.queries.get(name, QueryEnvironment()),
            vitals=measured.get(name) or {},
        )
        for each in described
    )
    hours = None if beat.started_at is None else max(0.0, at - beat.started_at) / 3600
    return SparkFacts(at, environment, queries, hours, cluster, vitals=vitals)

"""The inputs of a rehearsal that can be looked at again without one, once a standby that has waited is asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.runtime.managed_query import ManagedQuery

log = logging.getLogger(__name__)


def surroundings(queries: Sequence[ManagedQuery], described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what there is now, by what it is, for a person; only whether it is still the same is asked.

    :param described: `describe` of each query.
    :raises CheckpointError: a checkpoint cannot be read.
    """
    found: dict[str, Any] = {}
    for query, said in zip(queries, described):
        found[f"plan or settings of the query {query.label}"] = {**said}
        if checkpoints.boundary(query.checkpoint).offsets is None:
            continue
        checkpoint = checkpoints.read(query.checkpoint)
        found[f"topics and partitions of the query {query.label}"] = [
            {topic: sorted(partitions) for topic, partitions in (source.topics or {}).items()}
            for source in checkpoint.sources
        ]
        found[f"conf in the checkpoint of the query {query.label}"] = dict(checkpoint.conf)
        found[f"stateful operators of the query {query.label}"] = checkpoint.operators
    return found


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return what is not as it was, as a clause; empty when all is."""
    names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)]
    return f"other {'; '.join(names)} than in its rehearsal" if names else ""


def executors(queries: Sequence[ManagedQuery]) -> dict[str, Any]:
    """Return the executors' addresses by Spark's own list in memory: a new one has loaded no class yet."""
    if not queries:
        return {}
    infos = queries[0].writer._df.sparkSession.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return {"executors": sorted(f"{each.host()}:{each.port()}" for each in infos)}


def power(query: ManagedQuery, rehearsed: float) -> str:
    """Return as a sentence how long the driver took to come up, and how many cores it has; empty when Spark is mute.

    :param rehearsed: seconds since its rehearsal began.
    """
    try:
        context: Any = query.writer._df.sparkSession.sparkContext
        uptime = context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getUptime() / 1000
        # The driver is one of them, whose cores count in local mode only.
        every = context._jsc.sc().statusStore().executorList(True)
        cores = sum(every.apply(number).totalCores() for number in range(every.size()))
    except Exception:
        log.exception("What this driver can compute with is not known")
        return ""
    return f"The driver took {uptime - rehearsed:.0f} s to come up, and its executors have {cores} cores."

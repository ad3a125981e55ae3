"""Reads the vitals of this driver: of its batches what the heartbeat asks anyway, the rest once a minute.

All calls stay in this process: no HTTP, so that it works behind proxies, and with Spark's UI off.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark import SparkContext

from airflow_stream_provider.lifecycle.texts import redact
from airflow_stream_provider.lifecycle.vitals import QueryVitals, Vitals
from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.describe import is_file_sink, kafka_relations
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.seen_batches import SeenBatches

T = TypeVar("T")

VITALS_SECONDS = 60.0
# Between two readings, times as long as one takes.
PAUSES = 20.0
# Until the script has a session.
SOON_SECONDS = 5.0
# Of so many jobs the largest stage is looked for: a batch of foreachBatch may have several.
JOBS, STAGES = 3, 6
# Why executors were lost: so many reasons, of so many characters.
REASONS, REASON = 8, 80
# Their file systems give the size of a folder in one call. Others list all that is in it.
_SIZED = ("file", "hdfs", "viewfs", "")

log = logging.getLogger(__name__)


class DriverVitals:
    """The vitals of this driver. `last`: as they were read last; None before."""

    def __init__(self, jvm_pid: int) -> None:
        self.last: Vitals | None = None
        self._jvm_pid = jvm_pid
        self._seen: dict[str, SeenBatches] = {}
        # By name of a query, what does not change.
        self._kept: dict[str, _Kept] = {}
        self._collected: tuple[float, float] | None = None
        self._machine: _Machine | None = None
        self._failed: set[str] = set()

    def note(self, name: str, body: Mapping[str, Any]) -> None:
        """Note the last progress of a query, as the heartbeat has it. One that it cannot read counts as none."""
        self._known("batches", lambda: self._seen.setdefault(name, SeenBatches()).note(body, time.monotonic()))

    def read(self, queries: Sequence[ManagedQuery]) -> float:
        """Read the vitals; return after how many seconds to read them again, so that it takes 5 % of the time at most.

        A job of the side thread: a storage that hangs holds up nothing.
        """
        context = SparkContext._active_spark_context
        if context is None or getattr(context, "_jsc", None) is None:
            return SOON_SECONDS
        began = time.monotonic()
        if self._machine is None or self._machine.context is not context:
            self._machine = self._known("JVM", lambda: _Machine(context))
        machine = self._machine
        if machine is None:
            return SOON_SECONDS
        fields: dict[str, Any] = {"at": time.time()}
        parts: list[tuple[str, Callable[[], Mapping[str, Any]]]] = [
            ("heap", machine.heap),
            ("collections", lambda: self._collections(machine.collection_seconds())),
            ("process", lambda: _process(self._jvm_pid)),
            ("local folders", machine.local_folders),
            ("executors", machine.executors),
            ("events", machine.events),
            ("tokens", machine.tokens),
            ("certificates", lambda: machine.certificates(s for each in self._kept.values() for s in each.key_stores)),
        ]
        for query in queries:
            kept = self._kept.get(query.label) or self._known("options", partial(_Kept, query))
            if kept is not None:
                self._kept[query.label] = kept
        for name, part in parts:
            fields.update(self._known(name, part) or {})
        running = [query for query in queries if query.real is not None and query.label in self._kept]
        fields["queries"] = {query.label: self._query(query, machine) for query in running}
        self.last = Vitals(**fields)
        return max(VITALS_SECONDS, PAUSES * (time.monotonic() - began))

    def _known(self, name: str, part: Callable[[], T]) -> T | None:
        """Return what a part says; None where it cannot, such as of a context that stops. The others say theirs."""
        try:
            return part()
        except Exception as error:  # noqa: BLE001 - whatever it is; nothing waits for it
            if name not in self._failed:
                log.info("The vitals lack the %s: %s", name, type(error).__name__)
            self._failed.add(name)
            return None

    def _collections(self, seconds: float) -> dict[str, Any]:
        now, before = (time.monotonic(), seconds), self._collected
        self._collected = now
        return {} if before is None else {"gc_share": round(min(1.0, (now[1] - before[1]) / (now[0] - before[0])), 4)}

    def _query(self, query: ManagedQuery, machine: _Machine) -> QueryVitals:
        name = query.label
        kept = self._kept[name]
        fields = self._seen.setdefault(name, SeenBatches()).vitals(kept.most)
        fields.update(self._known("stages", lambda: machine.stage(str(query.runId))) or {})
        fields["checkpoint_bytes"] = self._known("checkpoints", lambda: machine.size(query.checkpoint))
        if kept.sink_log:
            fields["sink_log_bytes"] = self._known("sinks' logs", lambda: machine.size(kept.sink_log))
        return QueryVitals(**fields)


class _Kept:
    """The part of a query that does not change: reading its plan takes many calls."""

    def __init__(self, query: ManagedQuery) -> None:
        sources = [relation.extraOptions() for relation in kafka_relations(query)]
        most = [source.get("maxOffsetsPerTrigger") for source in sources]
        self.most = sum(map(int, most)) if most and all(most) else None
        # With its password, which stays here.
        self.key_stores = [
            (path, source.get("kafka.ssl.keystore.password") or "")
            for source in sources
            if (path := source.get("kafka.ssl.keystore.location"))
        ]
        self.sink_log = f"{query.writer_spec.sink_target}/_spark_metadata" if is_file_sink(query) else ""


def reason_of(text: str) -> str:
    """Return why an executor was lost, without secrets, and without what would make a reason of each: hosts, ids."""
    return re.sub(r"\S*(?:\d{4,}|[.:-]\d)\S*", "…", redact(text))[:REASON]


def _process(pid: int) -> dict[str, Any]:
    """Return the memory of the JVM, and what it has logged, from this machine alone."""
    found: dict[str, Any] = {}
    with open(f"/proc/{pid}/status") as file:
        rss = re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M)
    found["rss"] = int(rss[1]) * 1024 if rss else None
    # A standalone worker reads the output through pipes, and writes it into the driver's folder, where it runs.
    for names in ((f"/proc/{pid}/fd/1", f"/proc/{pid}/fd/2"), ("stdout", "stderr")):
        files = [name for name in names if os.path.exists(name) and stat.S_ISREG(os.stat(name).st_mode)]
        if files:
            sizes = {(each.st_dev, each.st_ino): each.st_size for each in map(os.stat, files)}
            return {**found, "log_bytes": sum(sizes.values()), "log_free": _free(files[0])}
    return found


def _free(path: str) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


class _Machine:
    """The JVM, asked in as few calls as possible.

    Objects that stay are kept, and Spark's own writer gives a whole object as one text.
    """

    def __init__(self, context: SparkContext) -> None:
        self.context = context
        self._sc: Any = context._jsc.sc()
        java: Any = jvm.jvm()
        self._path = java.org.apache.hadoop.fs.Path
        self._writer = java.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
        self._store, self._tracker = self._sc.statusStore(), self._sc.statusTracker()
        self._counters = self._sc.listenerBus().metrics().metricRegistry()
        self._users = java.org.apache.hadoop.security.UserGroupInformation
        self._java = java.java
        self._folders: dict[str, Any] = {}
        beans = java.java.lang.management.ManagementFactory
        self._heap_max = int(beans.getMemoryMXBean().getHeapMemoryUsage().getMax())
        pools = (
            (pool.getName(), pool) for pool in beans.getMemoryPoolMXBeans() if str(pool.getType()).startswith("Heap")
        )
        self._pools = [*pools]
        # The others run beside the threads of the driver, and do not hold them up.
        collectors = beans.getGarbageCollectorMXBeans()
        self._collectors = [each for each in collectors if "Concurrent" not in each.getName()]
        self._local = self._json(java.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs())
        self._memory = int(self._sc.executorMemory()) * 2**20
        self._quantiles = jvm.gateway().new_array(java.double, 2)
        self._quantiles[0], self._quantiles[1] = 0.5, 1.0

    def _json(self, found: Any) -> Any:
        return json.loads(self._writer.writeValueAsString(found))

    def heap(self) -> dict[str, Any]:
        used = [(name, pool.getCollectionUsage().getUsed()) for name, pool in self._pools]
        # The old generation, where one is, has not been collected yet: nothing of the heap is known.
        unknown = any(name.endswith(("Old Gen", "Tenured Gen")) and not size for name, size in used)
        after_gc = None if unknown or not used else sum(size for _, size in used)
        return {"heap_after_gc": after_gc, "heap_max": self._heap_max if self._heap_max > 0 else None}

    def collection_seconds(self) -> float:
        return sum(int(each.getCollectionTime()) for each in self._collectors) / 1000

    def local_folders(self) -> dict[str, Any]:
        return {"local_free": min(map(_free, self._local))}

    def executors(self) -> dict[str, Any]:
        found = self._json(self._store.executorList(False))
        others = [each for each in found if each["id"] != "driver"]
        lost: dict[str, int] = {}
        for each in others:
            if not each["isActive"]:
                why = reason_of(each.get("removeReason") or "unknown")
                why = why if why in lost or len(lost) < REASONS else "…"
                lost[why] = lost.get(why, 0) + 1
        active = [each for each in others if each["isActive"]]
        return {
            "executors": len(active),
            "executors_started": len(others),
            "executors_lost": lost,
            "executor_memory": self._memory * len(active) if active else self._heap_max,
            "tasks_failed": sum(each["failedTasks"] for each in found),
            "cores": sum(each["totalCores"] for each in active or found),
        }

    def events(self) -> dict[str, Any]:
        counters = self._json(self._counters.getCounters())
        dropped = [each["count"] for name, each in counters.items() if name.endswith(".numDroppedEvents")]
        return {"events_dropped": sum(dropped)}

    def tokens(self) -> dict[str, Any]:
        ends = []
        for token in self._users.getCurrentUser().getTokens():
            said: Any = token.decodeIdentifier()  # None: of a kind that is unknown here
            if said is not None:
                with contextlib.suppress(Py4JError):  # one that has no end
                    ends.append(said.getMaxDate() / 1000)
        return {"token_until": min((each for each in ends if each > 0), default=None)}

    def certificates(self, stores: Iterable[tuple[str, str]]) -> dict[str, Any]:
        ends = [end for path, password in dict(stores).items() for end in self._certificates(path, password)]
        return {"certificate_until": min(ends, default=None)}

    def _certificates(self, path: str, password: str) -> list[float]:
        file = self._java.io.File(path)
        if path.endswith(".pem"):
            stream = self._java.io.FileInputStream(file)
            try:
                found = [*self._java.security.cert.CertificateFactory.getInstance("X.509").generateCertificates(stream)]
            finally:
                stream.close()
        else:
            store = self._java.security.KeyStore.getInstance(file, self._java.lang.String(password).toCharArray())
            found = [store.getCertificate(name) for name in self._java.util.Collections.list(store.aliases())]
        return [each.getNotAfter().getTime() / 1000 for each in found if each is not None]

    def stage(self, group: str) -> dict[str, Any]:
        """Return the largest stage of the last jobs of a run that is over."""
        jobs = sorted(self._json(self._tracker.getJobIdsForGroup(group)))[-JOBS:]
        numbers = {number for job in jobs for number in self._json(self._store.job(job))["stageIds"]}
        stages = [self._json(self._store.lastStageAttempt(number)) for number in sorted(numbers)[-STAGES:]]
        over = [each for each in stages if each["status"] == "COMPLETE"]
        if not over:
            return {}
        largest = max(over, key=lambda each: each["executorRunTime"])
        tasks = self._json(self._store.taskSummary(largest["stageId"], largest["attemptId"], self._quantiles))
        seconds = _time(largest["completionTime"]) - _time(largest["submissionTime"])
        found: dict[str, Any] = {"tasks": largest["numTasks"], "stage_seconds": round(seconds, 3)}
        if tasks:
            found["task_p50"], found["task_max"] = (each / 1000 for each in tasks["duration"])
        return found

    def size(self, location: str) -> int | None:
        """Return the size of a folder; None where it is not there, or has no cheap answer."""
        if urlsplit(location).scheme not in _SIZED:
            return None
        if location not in self._folders:
            path = self._path(location)
            self._folders[location] = path, path.getFileSystem(self._sc.hadoopConfiguration())
        path, files = self._folders[location]
        return int(files.getContentSummary(path).getLength()) if files.exists(path) else None


def _time(text: str) -> float:
    return float(datetime.strptime(text.replace("GMT", "+0000"), "%Y-%m-%dT%H:%M:%S.%f%z").timestamp())

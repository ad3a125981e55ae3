"""Whether advice is right: four bottlenecks made on purpose, and what rule, trial and the live query say of each.

    python -m benchmarks.advice [--batches 20] [--only NAME]

For each one a query runs on a real Spark of two cores and a real Kafka, and its batches are measured. The rule has to
fire on them alone. What it proposes is tried on clones of the checkpoint (`runtime/clone_trial.py`), as a standby does,
and then the query itself runs with the change. The table has the three ratios of seconds per record side by side.

- small-batches: batches of 500 records; most of their time is not spent on records
- state-partitions: 48 partitions of a state that gets 1,000 records a batch
- read-again: a function of foreachBatch with three actions
- idle-cores: one Kafka partition on two cores. A long job of the same driver has the other core. The rule sees a core
  that is free; no change can use it, so the trial has to say "not better"
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.runtime.clone_runs import CloneRuns
from airflow_stream_provider.runtime.clone_trial import CloneTrial
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.spark_progress import rows_of
from airflow_stream_provider.tuning.advise import SHUFFLE, advise
from airflow_stream_provider.tuning.measured import ENOUGH, WARMING
from airflow_stream_provider.tuning.verdict import Ratio, ratio_of, verdict_of
from benchmarks.results import machine, write
from benchmarks.spark import session
from devstack.drivers import wait_for
from devstack.jars import spark_connector
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from devstack.spark import bundled_spark

CORES = 2
RECORDS = {"one": 400_000, "four": 800_000}
# A record works for some time, without Python: a sum over so many numbers.
HEAVY = "aggregate(sequence(1, 300), 0L, (a, x) -> a + hash(x, value)) AS worked"


def three_actions(batch: DataFrame, batch_id: int) -> None:
    """Read a batch three times."""
    for partition in range(3):
        batch.where(f"partition = {partition}").write.format("noop").mode("overwrite").save()


def three_actions_persisted(batch: DataFrame, batch_id: int) -> None:
    """Read it from Kafka once."""
    batch.persist()
    try:
        three_actions(batch, batch_id)
    finally:
        batch.unpersist()


@dataclass(frozen=True)
class Bottleneck:
    """A query with a bottleneck.

    :param topic: that it reads; its name is the number of its partitions.
    :param cap: records of a batch.
    :param plan: what is made of them.
    :param function: of foreachBatch; None: the rows go nowhere.
    :param better: the same function with the change that is proposed.
    :param conf: settings of the session.
    """

    topic: str
    cap: int
    plan: Callable[[DataFrame], DataFrame] = lambda frame: frame
    function: Callable[[DataFrame, int], None] | None = None
    better: Callable[[DataFrame, int], None] | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    busy: bool = False


def lengths(frame: DataFrame) -> DataFrame:
    """Do next to nothing with each record."""
    return frame.selectExpr("length(CAST(value AS STRING)) AS length")


def counts(frame: DataFrame) -> DataFrame:
    """Count by a hundred keys."""
    return frame.selectExpr("offset % 100 AS key").groupBy("key").count()


def worked(frame: DataFrame) -> DataFrame:
    """Work on each record."""
    return frame.selectExpr(HEAVY)


BOTTLENECKS = {
    "small-batches": Bottleneck("four", 500, lengths),
    "state-partitions": Bottleneck("four", 1000, counts, conf={SHUFFLE: "48"}),
    "read-again": Bottleneck("four", 10_000, function=three_actions, better=three_actions_persisted),
    "idle-cores": Bottleneck("one", 4000, worked, busy=True),
}


class Bench:
    """Runs the bottlenecks in one Spark, with the gate of a driver: its queries are started by hand."""

    def __init__(self, spark: SparkSession, servers: str, root: Path, batches: int) -> None:
        self._spark, self._servers, self._root, self._batches = spark, servers, root, batches
        self._gate = Gate()
        self._gate.install(lambda: None, lambda error: None)

    def fill(self) -> None:
        """Write the records."""
        for topic, partitions in (("one", 1), ("four", 4)):
            rows = self._spark.range(0, RECORDS[topic], 1, 4)
            named = rows.selectExpr("CAST(id AS STRING) AS value", f"CAST(id % {partitions} AS INT) AS partition")
            options = {"kafka.bootstrap.servers": self._servers, "topic": topic}
            named.write.format("kafka").options(**options).save()

    def query(self, name: str, found: Bottleneck, change: Trial | None = None) -> ManagedQuery:
        """Return the query, not started; `change`: what it is to run with."""
        options = {"maxoffsetspertrigger": str(found.cap), **(change.options if change else {})}
        records = self._spark.readStream.format("kafka").options(**options).option("startingOffsets", "earliest")
        frame = records.option("kafka.bootstrap.servers", self._servers).option("subscribe", found.topic).load()
        for setting, value in {SHUFFLE: "4", **found.conf, **(change.conf if change else {})}.items():
            self._spark.conf.set(setting, value)
        writer = found.plan(frame).writeStream.outputMode("update").queryName(f"{name}-{uuid.uuid4().hex[:6]}")
        function = found.better if change and change.persist else found.function
        writer = writer.foreachBatch(function) if function else writer.format("noop")
        managed: Any = writer.option("checkpointLocation", str(self._root / uuid.uuid4().hex)).start()
        assert isinstance(managed, ManagedQuery)
        return managed

    def live(self, query: ManagedQuery) -> list[dict[str, Any]]:
        """Run the query itself; return Spark's progress of its batches, without the first ones."""
        query.start_real()
        real = query.real
        assert real is not None

        def ran() -> list[dict[str, Any]]:
            assert real.isActive, real.exception()
            said = [json.loads(each.json()) for each in real._jsq.recentProgress()]
            return [each for each in said if "addBatch" in each["durationMs"] and each["numInputRows"]]

        wanted = max(self._batches, ENOUGH) + WARMING
        found = wait_for("its batches", lambda: len(done := ran()) >= wanted and done)
        self.stage = self._stage(real.runId)
        real.stop()
        assert isinstance(found, list)
        return found[WARMING:]

    def _stage(self, group: str) -> dict[str, float]:
        """Return the largest stage of the last jobs of a run."""
        context: Any = self._spark.sparkContext
        store, tracker = context._jsc.sc().statusStore(), context._jsc.sc().statusTracker()
        mapper = context._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
        jobs = [
            json.loads(mapper.writeValueAsString(store.job(job)))
            for job in sorted(tracker.getJobIdsForGroup(group))[-9:]
        ]
        numbers = {number for job in jobs if job["status"] == "SUCCEEDED" for number in job["stageIds"]}
        stages = [json.loads(mapper.writeValueAsString(store.lastStageAttempt(number))) for number in numbers]
        largest = max((e for e in stages if e["status"] == "COMPLETE"), key=lambda each: each["executorRunTime"])
        quantiles = context._gateway.new_array(context._jvm.double, 2)
        quantiles[0], quantiles[1] = 0.5, 1.0
        summary = store.taskSummary(largest["stageId"], largest["attemptId"], quantiles).get()
        tasks = [each / 1000 for each in json.loads(mapper.writeValueAsString(summary))["duration"]]
        return {"tasks": largest["numTasks"], "task_p50": tasks[0], "task_max": tasks[1], "stage_seconds": tasks[1]}

    def vitals(self, query: ManagedQuery, found: Bottleneck, batches: list[dict[str, Any]]) -> dict[str, Any]:
        """Return what a driver says of these batches."""

        def median(read: Callable[[dict[str, Any]], float]) -> float:
            return statistics.median(read(each) for each in batches)

        phases = {phase for each in batches for phase in each["durationMs"]}
        state = [each["numShufflePartitions"] for each in batches[-1]["stateOperators"]]
        left = batches[-1]["sources"][0]["metrics"].get("maxOffsetsBehindLatest", 0)
        seen = {
            "durations": {p: statistics.median(each["durationMs"].get(p, 0) for each in batches) for p in phases},
            "batches": len(batches) + WARMING,
            "records": median(rows_of),
            "rows": median(lambda each: each["numInputRows"]),
            "full": sum(rows_of(each) >= 0.95 * found.cap for each in batches) / len(batches),
            "behind": int(float(left)),
            "state_partitions": max(state, default=None),
            **self.stage,
        }
        return {"cores": CORES, "queries": {query.label: seen}}

    def trial(self, query: ManagedQuery, change: Trial) -> Ratio | None:
        """Try a change on clones, as the driver of a standby does."""
        runs = CloneRuns(self._gate, Policy(foreach_batch_safe=True))
        runs.deadline = time.monotonic() + 3600
        trial = Trial(change.conf, change.options, change.persist, self._batches)
        said = CloneTrial(runs, query, trial, self._root / uuid.uuid4().hex, 2**30).run()
        if said["note"]:
            print(f"{query.label}: {said['note']}")
        return ratio_of(said["old"], said["new"])

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Give one of the cores to another job of the driver."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                self._spark.range(0, 3_000_000, 1, 1).selectExpr("hash(sha2(CAST(id AS STRING), 512)) AS x").agg(
                    {"x": "sum"}
                ).collect()

        worker = threading.Thread(target=work)
        worker.start()
        try:
            yield
        finally:
            over.set()
            worker.join()


def measure(bench: Bench, rule: str) -> dict[str, Any]:
    """Measure one bottleneck: what its rule predicts, the trial finds, and the query itself does with the change."""
    found = BOTTLENECKS[rule]
    with bench.busy() if found.busy else nullcontext():
        query = bench.query(rule, found)
        before = bench.live(query)
        kept = {
            "options": {"maxOffsetsPerTrigger": str(found.cap)},
            "kafka_partitions": 1 if found.topic == "one" else 4,
        }
        environment = {"spark": "4", "conf": dict(found.conf), "queries": {query.label: kept}}
        proposed = {each.rule: each for each in advise(environment, bench.vitals(query, found, before))}
        if rule not in proposed:
            raise SystemExit(f"The rule {rule} has not fired, but {', '.join(proposed) or 'none'}.")
        change = proposed[rule].change.trial
        assert change is not None
        tried = bench.trial(query, change)
        after = bench.live(bench.query(rule, found, change))
    pairs = [
        [(each["durationMs"]["triggerExecution"] / 1000, rows_of(each)) for each in side] for side in (before, after)
    ]
    live = ratio_of(*pairs)
    return {
        "found": proposed[rule].found,
        "change": change.changes,
        "predicted": proposed[rule].expected,
        "trial": None if tried is None else vars(tried),
        "live": None if live is None else vars(live),
        "verdict": verdict_of(tried).value,
        "row": [rule, change.changes, proposed[rule].expected, str(tried), str(live), verdict_of(tried).value],
    }


def main() -> None:
    """Measure all of them, print the table, and write `build/bench/advice.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20, help="of each side that are measured")
    parser.add_argument("--only", choices=sorted(BOTTLENECKS), action="append")
    given = parser.parse_args()
    about = machine()
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder) / "kafka") as kafka:
        with kafka.client() as client:
            create_topics(client, {"one": 1, "four": 4})
        conf = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
        with session("advice", [spark_connector(bundled_spark())], cores=CORES, conf=conf) as spark:
            bench = Bench(spark, kafka.servers, Path(folder) / "checkpoints", given.batches)
            bench.fill()
            found = {rule: measure(bench, rule) for rule in given.only or BOTTLENECKS}
    table = Table("rule", "change", "predicted", "trial", "live", "verdict", title="seconds per record, old / new")
    for each in found.values():
        table.add_row(*each["row"])
    Console(width=140).print(table)
    write("advice", {"machine": about, "batches": given.batches, "found": found})


if __name__ == "__main__":
    main()

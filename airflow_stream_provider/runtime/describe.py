"""Describes a query for the control log and the heartbeat: sources, sink, stateful operators, progress."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.lifecycle.kafka_source import KafkaIds, KafkaSource, addresses, kafka_source
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.spark_progress import counts_once, rows_of, state_of, told_of

# Spark keeps these from the checkpoint and silently ignores what the session says (OffsetSeqMetadata).
PINNED_CONF = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
)

_STATEFUL = re.compile(r"Aggregate|Deduplicate\w*|FlatMapGroups\w*|TransformWithState\w*|Join")
_FUNCTION = re.compile(r"([A-Za-z_]\w*)\(")
# Expressions whose text begins with that of another one, or that are only a name.
_NAMES = ("Alias", "AttributeReference", "AggregateExpression", "UnresolvedAttribute", "OuterReference")
_SOURCE_OPTIONS = ("subscribe", "subscribePattern", "assign", "path")
# The formats that Spark writes with its file sink, and those that bring a sink of their own, such as Delta.
_FILE_KINDS = ("execution.datasources.FileFormat", "execution.datasources.v2.FileDataSourceV2")
_OWN_SINK = "sources.StreamSinkProvider"
# The settings that the audit of Kafka judges. Never a password: every reader of the control log sees them.
_AUDITED_SOURCE = ("failOnDataLoss",)
# The options by which a Kafka source lets records wait. Spark's default of the second, where the first is given.
_WAITING = ("minOffsetsPerTrigger", "maxTriggerDelay")
_TRIGGER_DELAY = "15m"
# For a query that reads what is there and ends (AvailableNow, once): a run that has committed nothing for so long is
# held against the pace of its last commits. Between two runs it is not running.
ONE_RUN_SECONDS = 600.0
_AUDITED_SINK = ("kafka.acks", "kafka.enable.idempotence")


def describe(query: ManagedQuery) -> dict[str, Any]:
    """Return what the `standby` record says of a query, from its analyzed plan; nothing is run."""
    frame = query.writer._df
    plan = frame._jdf.queryExecution().analyzed()
    conf = frame.sparkSession.conf
    return {
        "name": query.label,
        "checkpoint": query.checkpoint,
        "sink": query.writer_spec.sink,
        "target": query.writer_spec.sink_target,
        "sources": _sources(plan),
        "file_sink": is_file_sink(query),
        "read_committed": _reads_committed(plan),
        "kafka_sources": [_kafka_source(each, query.kafka_ids).to_json() for each in _kafka(plan)],
        "source_options": [_options(each.extraOptions().get, (*_AUDITED_SOURCE, *_WAITING)) for each in _kafka(plan)],
        "trigger": dict(query.writer_spec.trigger),
        "sink_servers": list(addresses(query.writer_spec.options.get("kafka.bootstrap.servers", ""))),
        "sink_options": _options(query.writer_spec.options.get, _AUDITED_SINK),
        "fingerprint": fingerprint(plan),
        "conf": {name: conf.get(name, None) for name in PINNED_CONF},
        "late": query.late,
    }


def quiet_seconds(query: ManagedQuery) -> float:
    """Return how long a query may commit nothing while records wait for it, by its trigger and its Kafka sources.

    Spark reads the durations, as it does for the query itself.
    """
    trigger = query.writer_spec.trigger
    jvm: Any = query.writer._spark._jvm
    if trigger.get("availableNow") or trigger.get("once"):
        return ONE_RUN_SECONDS
    found = 0.0
    if "processingTime" in trigger:
        found = jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(trigger["processingTime"]).intervalMs() / 1000
    waiting = [_options(relation.extraOptions().get, _WAITING) for relation in kafka_relations(query)]
    delays = [
        options.get("maxTriggerDelay", _TRIGGER_DELAY) for options in waiting if "minOffsetsPerTrigger" in options
    ]
    milliseconds = [jvm.org.apache.spark.network.util.JavaUtils.timeStringAsMs(each) for each in delays]
    return found + max(milliseconds, default=0) / 1000  # once its delay is over, a source is asked at the next trigger


def _kafka_source(relation: Any, said: Mapping[tuple[str, ...], KafkaIds]) -> KafkaSource:
    found = kafka_source(dict(relation.extraOptions()))
    ids = said.get(found.servers, KafkaIds())
    topics = {topic: each for topic, each in ids.topics.items() if found.may_read(topic)}
    return replace(found, cluster=ids.cluster, topic_ids=topics)


def is_file_sink(query: ManagedQuery) -> bool | None:
    """Whether Spark writes a query's rows with its file sink, which keeps a log of its own; None: Spark does not know.

    That is so for every format of files, also by the name of a class (`DataSource.createSink`).
    """
    spec = query.writer_spec
    if spec.foreach or spec.foreach_batch is not None or spec.sink in ("memory", "console", "noop"):
        return False
    session: Any = query.writer._spark
    name = spec.format or session.conf.get("spark.sql.sources.default", "parquet")
    execution = session._jvm.org.apache.spark.sql.execution.datasources
    try:
        found = execution.DataSource.lookupDataSource(name, session._jsparkSession.sessionState().conf())
        loader = session._jsparkSession.getClass().getClassLoader()
        kinds = [loader.loadClass(f"org.apache.spark.sql.{kind}") for kind in (*_FILE_KINDS, _OWN_SINK)]
    except (Py4JJavaError, PySparkException):
        return None  # it says so itself, when the query starts
    *files, own = (kind.isAssignableFrom(found) for kind in kinds)
    return any(files) and not own


def fingerprint(plan: Any) -> list[str]:
    """Return the stateful operators of an analyzed plan and the functions inside them, without names and ids.

    Spark compares types, not functions: `sum` replaced by `max` of the same type goes on with wrong results. The
    functions are read from the expressions and not from the plan's text, which has columns named `sum(v)` and is cut
    after `spark.sql.debug.maxToStringFields`.
    """
    name = plan.getClass().getSimpleName()
    found = []
    if _STATEFUL.fullmatch(name):
        functions = [f for expression in _items(plan.expressions()) for f in _functions(expression)]
        found.append(f"{name}({','.join(sorted(functions))})")
    return found + [line for child in _items(plan.children()) for line in fingerprint(child)]


def _functions(expression: Any) -> list[str]:
    found = [f for child in _items(expression.children()) for f in _functions(child)]
    if expression.getClass().getSimpleName() not in _NAMES:
        called = _FUNCTION.match(expression.toString())
        found += [called[1]] if called else []
    return found


def _items(seq: Any) -> list[Any]:
    return [seq.apply(position) for position in range(seq.size())]


def _sources(plan: Any) -> list[str]:
    found = []
    for leaf in _leaves(plan):
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            options = {name: leaf.extraOptions().get(name) for name in _SOURCE_OPTIONS}
            named = ",".join(f"{name}={value}" for name, value in options.items() if value)
            found.append(f"{leaf.sourceName()}:{named}")
        elif leaf.getClass().getSimpleName() == "StreamingRelation":
            # Spark's first interface: files, and what Delta makes of a table or a path.
            paths, table = _given(leaf, "path"), leaf.dataSource().catalogTable()
            named = f"path={paths[0]}" if paths else f"table={table.get().identifier()}" if table.isDefined() else ""
            found.append(f"{leaf.dataSource().className()}:{named}")
        elif leaf.isStreaming():
            found.append(leaf.getClass().getSimpleName())
    return found


def sources_of(query: ManagedQuery) -> list[str]:
    """Return the sources of a query as the `standby` record names them."""
    return _sources(query.writer._df._jdf.queryExecution().analyzed())


def cleans_input(query: ManagedQuery) -> bool:
    """Whether Spark deletes or archives input files of a query once they are read (`cleanSource` of a file source).

    It does so whenever it plans the batch after that one, on whatever checkpoint the query runs.
    """
    plan = query.writer._df._jdf.queryExecution().analyzed()
    return any(mode.lower() != "off" for leaf in _leaves(plan) for mode in _given(leaf, "cleanSource"))


def source_options(frame: DataFrame, names: Sequence[str]) -> dict[str, str]:
    """Return those of these options that a source of a frame was given; of several sources those of the first."""
    leaves = _leaves(frame._jdf.queryExecution().analyzed())
    given = {name: [value for leaf in leaves for value in _given(leaf, name)] for name in names}
    return {name: str(values[0]) for name, values in given.items() if values}


def calls_python(frame: DataFrame) -> bool:
    """Whether the plan of a frame calls functions in Python, which run on the executors."""
    java: Any = frame.sparkSession._jvm
    pattern = java.org.apache.spark.sql.catalyst.trees.TreePattern
    return bool(frame._jdf.queryExecution().analyzed().containsPattern(pattern.PYTHON_UDF()))


def _given(relation: Any, option: str) -> list[str]:
    """Return the values that a source was given for an option, whose name is in any case."""
    name = relation.getClass().getSimpleName()
    if name == "StreamingRelationV2":
        value = relation.extraOptions().get(option)
        return [] if value is None else [value]
    if name != "StreamingRelation":
        return []
    # A Scala map with the names as they were given.
    pairs = relation.dataSource().options().iterator()
    found = []
    while pairs.hasNext():
        pair = pairs.next()
        if pair._1().lower() == option.lower():
            found.append(pair._2())
    return found


def _options(get: Callable[[str], Any], names: Sequence[str]) -> dict[str, str]:
    # Spark's own map takes names in any case; ours has them in lower case.
    found = {name: get(name.lower()) for name in names}
    return {name: str(value) for name, value in found.items() if value is not None}


def _leaves(plan: Any) -> list[Any]:
    return _items(plan.collectLeaves())


def _reads_committed(plan: Any) -> bool:
    """Whether every Kafka source reads committed records only; lag is then measured against the last stable offset."""
    levels = [relation.extraOptions().get("kafka.isolation.level") for relation in _kafka(plan)]
    return bool(levels) and all(level == "read_committed" for level in levels)


def kafka_relations(query: ManagedQuery) -> list[Any]:
    """Return the relations of a query's plan that read from Kafka."""
    return kafka_relations_of(query.writer._df)


def kafka_relations_of(frame: DataFrame) -> list[Any]:
    """Return the relations of a frame's plan that read from Kafka."""
    return _kafka(frame._jdf.queryExecution().analyzed())


def _kafka(plan: Any) -> list[Any]:
    relations = [leaf for leaf in _leaves(plan) if leaf.getClass().getSimpleName() == "StreamingRelationV2"]
    return [relation for relation in relations if relation.sourceName() == "kafka"]


def _is_kafka(source: Mapping[str, Any]) -> bool:
    # KafkaMicroBatchStream and KafkaSource say KafkaV2[…] and KafkaSourceV1[…]. Offsets of others may look like theirs.
    return str(source.get("description", "")).startswith(("KafkaV2[", "KafkaSourceV1["))


def first_batch(run: StreamingQuery) -> int | None:
    """Return the batch that a run began with, or would run next, by the oldest that Spark keeps of what it has said."""
    said = run._jsq.recentProgress()
    return int(said[0].batchId()) if len(said) else None


def progress(query: ManagedQuery) -> QueryProgress:
    """Return how far a query is, from Spark's last progress (which it writes after the commit)."""
    found = QueryProgress(query.label, query.checkpoint, query.writer_spec.sink, ended=query.over)
    real = query.real
    last = real._jsq.lastProgress() if real is not None else None
    if last is None:
        return found
    body = json.loads(last.json())
    durations = body.get("durationMs", {})
    ran = "addBatch" in durations
    # While no data arrives, Spark reports the batch that it would run next, every 10 s (ProgressReporter).
    batch = body["batchId"] if ran else body["batchId"] - 1
    if batch < 0:
        return found
    state_rows, state_bytes = state_of(body)
    rows, seconds = rows_of(body), durations.get("triggerExecution", 0) / 1000
    return replace(
        found,
        id=body["id"],
        batch=batch,
        batch_seconds=seconds if ran else None,
        input_rows=rows,
        rows_per_second=rows / seconds if seconds else 0.0,
        rows_exact=query.writer_spec.foreach_batch is None or counts_once(body),
        triggered_at=body.get("timestamp") or "",
        committed=tuple(source.get("endOffset") for source in body.get("sources", ()) if _is_kafka(source)),
        state_rows=state_rows,
        state_bytes=state_bytes,
        spark=told_of(body),
    )

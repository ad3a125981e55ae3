"""Audit a stream: the Kafka that it reads, and the Spark that runs it. Looks only; nothing is created or changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_stream_provider.audit import AuditReport, Requirements, Severity, Waiver, audit, tool_arguments
from airflow_stream_provider.audit.kafka.facts import recorded_clients
from airflow_stream_provider.audit.report import judge_spark
from airflow_stream_provider.audit.spark.facts import SparkFacts, facts_of
from airflow_stream_provider.clusters.cluster import ClusterFacts
from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.lifecycle.environment import Environment, allowed
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.planning.snapshot import Snapshot, submission_of

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook


def audit_kafka(
    hook: StreamHook,
    snapshot: Snapshot,
    offsets_group: str = "",
    requirements: Requirements = Requirements(),  # noqa: B008 - frozen
    topics: Iterable[str] = (),
    waivers: Sequence[Waiver] = (),
) -> AuditReport:
    """Audit the topics that a stream reads, by its own record.

    :param requirements: what is declared besides; source and sink are those of the record where they are None.
    :param topics: that are audited besides.
    :raises SpecError: the stream names no Kafka, or no driver has named a topic yet.
    """
    if not hook.kafka_conn_id:
        raise SpecError(
            f"The stream {hook.stream} names no Kafka connection, so there is nothing to audit.",
            next_step="Add kafka: CONNECTION_ID to its YAML.",
            stream=hook.stream,
        )
    found = recorded_clients(hook.stream, snapshot.state, snapshot.heartbeats)
    wanted = replace(
        requirements,
        source=found.source if requirements.source is None else requirements.source,
        sink=found.sink if requirements.sink is None else requirements.sink,
        offsets_group=offsets_group,
    )
    return audit_topics(hook.kafka_conn_id, [*found.topics, *topics], wanted, waivers)


def audit_topics(
    conn_id: str, topics: Sequence[str], requirements: Requirements, waivers: Sequence[Waiver] = ()
) -> AuditReport:
    """Audit topics of the Kafka of an Airflow connection."""
    # Here: a DAG file that is parsed needs no Kafka client.
    from airflow_stream_provider.kafka.client import KafkaClient

    if not topics:
        raise SpecError("No topic was given to audit.", next_step="Give stream=load_spec(...), or topics=.")
    extra = kafka_extra(conn_id)
    with KafkaClient(conn_id, extra) as client:
        return audit(client, topics, requirements, tool_arguments(extra), waivers)


def audit_spark(hook: StreamHook, snapshot: Snapshot, waivers: Sequence[Waiver] = ()) -> AuditReport:
    """Audit the Spark of the driver that holds a stream, held it last, or stands by.

    :raises SpecError: no driver has said with which settings it runs.
    """
    return judge_spark(spark_facts(hook, snapshot, snapshot.state.last_holder), waivers)


def audit_job(hook: StreamHook, id: str) -> list[str]:
    """Return a sentence for each bad setting of a job without a stream, for a person who is to adopt it."""
    try:
        version, conf = hook.cluster.unmanaged_settings(id)
    except ClusterError as error:
        return [f"The settings of {id} could not be audited: {error.message}"]
    report = judge_spark(SparkFacts(time.time(), Environment(spark=version, conf=allowed(conf))))
    return [] if not version else [f"Audit of {id}: {each}." for each in report.failing(Severity.HIGH)]


def spark_facts(hook: StreamHook, snapshot: Snapshot, incarnation: str | None) -> SparkFacts:
    """Return the facts about the Spark of a driver; None: of the one that has announced itself last.

    :raises SpecError: it has not said with which settings it runs.
    """
    state = snapshot.state
    driver = state.incarnations.get(incarnation or next(iter([*state.incarnations][-1:]), ""))
    environment = None if driver is None else hook.control_log.environment(driver.id)
    if driver is None or environment is None or not environment.spark:
        raise SpecError(
            f"No driver of {hook.stream} has said with which settings it runs.",
            next_step="Deploy the stream, or restart it: drivers of this version say that when they stand by.",
            stream=hook.stream,
        )
    beat = snapshot.heartbeats.get(driver.id, Heartbeat())
    submission = submission_of(driver.deployment, state, snapshot.heartbeats)
    try:
        cluster = hook.cluster.facts(submission, [beat.application_id] if beat.application_id else [])
    except ClusterError as error:
        cluster = ClusterFacts(problem=error.message)
    return facts_of(time.time(), environment, driver.queries, beat, cluster)

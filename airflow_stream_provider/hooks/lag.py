"""Ask the Kafka of an Airflow connection for the lag of one target, or whether it answers; for tasks and the CLI."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.hooks.ledger import by_ledger, committed_by_ledger, ledger_rows, read_ledger
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.limits import LagLook, Moments
from airflow_stream_provider.lag.reader import measure_lag, measure_sources, read_committed
from airflow_stream_provider.lag.targets import LagTarget, read_sources
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable, SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.texts import count

if TYPE_CHECKING:
    from airflow_stream_provider.checkpoint.logs import KafkaOffsets
    from airflow_stream_provider.lag.report import LagReport


def look_at_lag(target: LagTarget, moments: Moments) -> LagLook:
    """Measure once, with a connection to Kafka of its own; a failure is the look's `problem`.

    :param moments: what the report must say exactly.

    :raises SpecError: the Airflow connection is unusable, so that a later look fails too.
    :raises ConnectionUnavailable: it cannot be read; perhaps it is missing.
    """
    try:
        report = measure_now(target, moments)
    except (SpecError, ConnectionUnavailable):
        raise
    except StreamError as error:
        return LagLook.failed(error)
    return LagLook.of(report)


def measure_now(target: LagTarget, moments: Moments) -> LagReport:
    """Measure once, with a connection to Kafka of its own.

    :param moments: what the report must say exactly.
    :raises StreamError: Kafka, the stream's control log or the sink's ledger cannot be read.
    """
    extra = kafka_extra(target.kafka)
    if target.ledger:
        return measure_sources(target.kafka, extra, partial(_in_ledger, target), moments)
    return measure_lag(target, extra, control_root, moments)


def _in_ledger(target: LagTarget) -> list[Committed]:
    if not target.stream:
        return committed_by_ledger(read_ledger(target.ledger, target.name))
    log = ControlLog(control_root(target.control).store(target.stream), target.stream)
    committed = read_committed(log, target.control)
    return by_ledger(ledger_rows(target.ledger, target.stream), committed)


def committed_offsets(
    stream: str, control: str, state: StreamState, heartbeats: Mapping[str, Heartbeat]
) -> dict[str, list[KafkaOffsets]]:
    """Return the committed Kafka offsets by query: the first offsets that a driver starting now would read.

    Queries whose offsets are not known are left out.
    """
    found = read_sources(stream, control, state, heartbeats)
    return {query.query: [query.offsets] for query in found if query.offsets}


def check_kafka(conn_id: str) -> None:
    """Raise ConnectionUnavailable, SpecError or BrokerUnreachable unless the Kafka that a connection names answers."""
    kafka_answer(conn_id, kafka_extra(conn_id))


def kafka_answer(conn_id: str, extra: Mapping[str, Any]) -> str:
    """Return in a sentence for a person what answers at the addresses of a Kafka connection.

    :raises SpecError: the connection is not valid.
    :raises BrokerUnreachable: no broker answers within 10 s.
    :raises KafkaDenied: the brokers refuse the credentials.
    """
    from airflow_stream_provider.kafka.client import KafkaClient

    with KafkaClient(conn_id, extra) as client:
        found = client.describe_cluster()
        brokers = ",".join(f"{each['host']}:{each['port']}" for each in found["brokers"])
        return f"Kafka {found['cluster_id']} answers with {count(len(found['brokers']), 'broker')}: {brokers}."

"""Measure the lag of many streams and consumer groups of one Kafka in one go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.lag.committed_offsets import CommittedOffsets, GroupOffsets
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.targets import LagTarget, stream_sources
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.kafka.requests import Answers


class LagReader:
    """Measures many targets with the requests of one; blocks, and must be used from one thread.

    The control logs stay open between two reads, so that each reads only the new records.

    :param client: of the one Kafka that all targets name.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._logs: dict[LagTarget, ControlLog] = {}

    def read(self, targets: Iterable[LagTarget]) -> dict[LagTarget, LagReport | StreamError]:
        """Return a report for each target, or the error that prevents one.

        :raises StreamError: Kafka does not answer, or refuses the connection.
        """
        from airflow_stream_provider.lag.measure import measure_each

        distinct = list(dict.fromkeys(targets))
        # All groups at once: the number of requests must not grow with the number of sensors.
        offsets = self._client.groups_offsets({target.group for target in distinct} - {""})
        failed: dict[LagTarget, StreamError] = {}
        sources: dict[LagTarget, Sequence[CommittedOffsets]] = {}
        for target in distinct:
            try:
                sources[target] = self._sources(target, offsets)
            except StreamError as error:
                failed[target] = error
        return {**measure_each(self._client, sources), **failed}

    def _sources(
        self, target: LagTarget, offsets: Answers[str, dict[TopicPartition, int]]
    ) -> Sequence[CommittedOffsets]:
        if target.group:
            return [GroupOffsets(self._client, target.group, offsets)]
        log = self._logs.get(target)
        if log is None:
            log = self._logs[target] = open_log(target.control, target.stream)
        state = log.refresh()
        beat = log.heartbeat(state.last_holder) if state.last_holder else None
        beats = {} if beat is None or state.last_holder is None else {state.last_holder: beat}
        return stream_sources(target.stream, target.control, state, beats)


def measure_lag(target: LagTarget, extra: Mapping[str, Any]) -> LagReport:
    """Measure one target once, with a connection to Kafka of its own.

    :param extra: of the Airflow connection that the target names.
    :raises StreamError: Kafka, or the stream's control log, cannot be read.
    """
    from airflow_stream_provider.kafka.client import KafkaClient

    with KafkaClient(target.kafka, extra) as client:
        found = LagReader(client).read([target])[target]
    if isinstance(found, StreamError):
        raise found
    return found


def measure_sources(kafka: str, extra: Mapping[str, Any], sources: Iterable[CommittedOffsets]) -> LagReport:
    """Measure queries whose committed offsets are known already, with a connection to Kafka of its own.

    :param kafka: Airflow connection id, for messages.
    :param extra: of that connection.
    :raises StreamError: Kafka does not answer, or refuses the connection.
    """
    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.lag.measure import measure

    with KafkaClient(kafka, extra) as client:
        return measure(client, sources)

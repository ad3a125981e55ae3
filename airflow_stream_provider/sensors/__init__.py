"""The sensors that wait for a stream, or for its lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_stream_provider import lazily

if TYPE_CHECKING:
    from airflow_stream_provider.sensors.lag import KafkaLagSensor as KafkaLagSensor
    from airflow_stream_provider.sensors.lag import StreamCaughtUpSensor as StreamCaughtUpSensor
    from airflow_stream_provider.sensors.stream import StreamSensor as StreamSensor

# A DAG file imports what it uses and no more.
__getattr__ = lazily(
    __name__,
    {
        "lag": "KafkaLagSensor StreamCaughtUpSensor",
        "stream": "StreamSensor",
    },
)

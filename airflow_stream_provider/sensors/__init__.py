"""The sensors that wait for a stream, or for its lag."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_stream_provider.sensors.lag import KafkaLagSensor as KafkaLagSensor
    from airflow_stream_provider.sensors.lag import StreamCaughtUpSensor as StreamCaughtUpSensor
    from airflow_stream_provider.sensors.stream import StreamSensor as StreamSensor

_MODULES = {
    "lag": "KafkaLagSensor StreamCaughtUpSensor",
    "stream": "StreamSensor",
}


def __getattr__(name: str) -> Any:
    # Lazy: a DAG file imports what it uses and no more.
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

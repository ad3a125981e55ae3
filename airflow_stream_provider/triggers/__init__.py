"""The triggers that wait for deferred tasks: one for streams, one for lags; and one that schedules DAGs by a lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_stream_provider import lazily

if TYPE_CHECKING:
    from airflow_stream_provider.triggers.lag_event import LagEventTrigger as LagEventTrigger

# A DAG file imports what it uses and no more.
__getattr__ = lazily(
    __name__,
    {
        "lag_event": "LagEventTrigger",
    },
)

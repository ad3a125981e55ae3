"""Run Spark Structured Streaming jobs in production from Airflow: hand-over, roll-back, lag, fencing."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["stream_dags"]


def __getattr__(name: str) -> Any:
    # Lazy, because `lifecycle`, `control`, `checkpoint` and `runtime` are also imported inside the Spark driver,
    # where there is no Airflow.
    if name == "stream_dags":
        from airflow_stream_provider.runbook.dags import stream_dags

        return stream_dags
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

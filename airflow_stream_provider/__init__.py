"""Run Spark Structured Streaming jobs in production from Airflow: hand-over, roll-back, lag, fencing."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["check_stream_dags", "stream_dags"]


def __getattr__(name: str) -> Any:
    # Lazy, because `lifecycle`, `control`, `checkpoint` and `runtime` are also imported inside the Spark driver,
    # where there is no Airflow.
    if name in __all__:
        from airflow_stream_provider.runbook import dags

        return getattr(dags, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

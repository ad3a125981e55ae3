"""How far a stream or a consumer group is behind Kafka, and what Burrow says of it."""

from __future__ import annotations

from airflow_stream_provider.lag.burrow import evaluate

__all__ = ["evaluate"]

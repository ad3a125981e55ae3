"""A DAG of one's own: it runs after each change of the driver that holds a stream, once its output is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from airflow_stream_provider.operators import stream_asset
from airflow_stream_provider.sensors import StreamCaughtUpSensor
from airflow_stream_provider.spec.stream import load_spec

orders = stream_asset("orders")

with DAG("example.after_a_hand_over", schedule=[orders], is_paused_upon_creation=True, tags=["stream", "orders"]):
    caught_up = StreamCaughtUpSensor(
        task_id="caught_up", stream=load_spec(Path(__file__).parent / "streams/orders.yaml")
    )

    @task
    def tell(triggering_asset_events: Any = None) -> None:
        """Write the new release, its epoch and the gap of each query."""
        for event in triggering_asset_events[orders]:
            print(event.extra["version"], event.extra["epoch"], event.extra["gap_seconds"])

    caught_up >> tell()

"""The scheduled DAG that looks after a stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_stream_provider.operators.watch import WatchStreamOperator
from airflow_stream_provider.spec.stream import StreamSpec

# A run waits while it brings a stream back, which takes minutes; those after it go on looking.
RUNS = 30


def watch_dag(spec: StreamSpec) -> DAG:
    """Return ``NAME__watch``: measures lag and health, tells people, brings back a stream that has lost its driver."""
    every = spec.watch.schedule
    with DAG(
        f"{spec.name}__watch",
        description=f"Watch the stream {spec.name}: lag, health, alerts; bring it back when it has died.",
        schedule=None if every is None else timedelta(seconds=every),
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        # A watch that nobody has switched on is one that is missed when it is too late.
        is_paused_upon_creation=False,
        max_active_runs=RUNS,
        tags=["stream", spec.name],
        doc_md=watch_dag.__doc__,
    ) as dag:
        # One look at a time: each adds to what the one before has left.
        WatchStreamOperator(task_id="watch", stream=spec, max_active_tis_per_dag=1)
    return dag

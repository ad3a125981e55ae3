"""The scheduled DAG that looks after a stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_stream_provider.operators.watch import WatchStreamOperator
from airflow_stream_provider.spec.stream import StreamSpec

# A run that brings a stream back waits for minutes. Later runs wait for it, since Airflow counts a deferred task as
# active, and up to this many are then carried out one after the other.
RUNS = 30
# For a control folder that is briefly away; people are told when the last try fails.
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=10)}
_ABOUT = """\
Looks after the stream {spec.name}: measures lag and health, tells people of incidents, and brings the stream back when
it has lost its driver. It never puts a new release in charge, and leaves alone a stream that a person stopped.
"""


def watch_dag(spec: StreamSpec, operator: type[WatchStreamOperator] = WatchStreamOperator) -> DAG:
    """Return ``NAME__watch``: measures lag and health, tells people, brings back a stream that has lost its driver."""
    every = spec.watch.schedule
    with DAG(
        f"{spec.name}__watch",
        description=f"Watch the stream {spec.name}: lag, health, alerts; bring it back when it has died.",
        schedule=None if every is None else timedelta(seconds=every),
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        # Unpaused: a paused watch would be noticed only when the stream is already down.
        is_paused_upon_creation=False,
        max_active_runs=RUNS,
        default_args=RETRIES,
        tags=["stream", spec.name],
        doc_md=_ABOUT.format(spec=spec),
    ) as dag:
        # One at a time: each look appends to the samples of the one before.
        operator(task_id="watch", stream=spec, max_active_tis_per_dag=1)
    return dag

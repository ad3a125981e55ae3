"""A roll-back that a person asks for: back to the release that held before `deployment` did."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_stream_provider.operators.handover import RollBackOperator
from airflow_stream_provider.spec.stream import load_spec

orders = load_spec(Path(__file__).parent / "streams" / "orders.yaml")

with DAG(
    "orders__back",
    schedule=None,
    is_paused_upon_creation=False,
    max_active_runs=1,
    params={"deployment": Param("", type="string", description="Deployment that shall not hold any more.")},
):
    RollBackOperator(
        task_id="roll_back",
        stream=orders,
        deployment="{{ params.deployment }}",
        retries=3,
        retry_delay=timedelta(seconds=10),
    )

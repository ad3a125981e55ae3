# dags/after_a_hand_over.py
from airflow.sdk import DAG, task

from airflow_stream_provider.operators.base import stream_asset

orders = stream_asset("orders")
with DAG("after_a_hand_over", schedule=[orders]):

    @task
    def compare(triggering_asset_events: dict) -> None:
        for event in triggering_asset_events[orders]:
            print(event.extra["version"], event.extra["epoch"], event.extra["gap_seconds"])

    compare()

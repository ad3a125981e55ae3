# dags/orders_maintenance.py
from pathlib import Path

from airflow.sdk import DAG

from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.operators.stream import StartStreamOperator, StopStreamOperator
from airflow_stream_provider.sensors.stream import StreamSensor
from airflow_stream_provider.spec.stream import load_spec

orders = load_spec(Path(__file__).parent / "streams" / "orders.yaml")

with DAG("orders__maintenance", schedule=None):
    stop = StopStreamOperator(task_id="stop", stream=orders)
    start = StartStreamOperator(task_id="start", stream=orders)
    running = StreamSensor(task_id="running", stream=orders, phases=StreamPhase.RUNNING, timeout=600)
    stop >> start >> running

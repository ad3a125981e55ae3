"""DAGs around a lag, as a user would write them; `streams/orders.yaml` beside it is the test's."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, Param, task

from airflow_stream_provider.operators.lag import KafkaLagOperator
from airflow_stream_provider.sensors.lag import KafkaLagSensor, StreamCaughtUpSensor
from airflow_stream_provider.spec.stream import load_spec
from airflow_stream_provider.triggers.lag_event import LagEventTrigger

orders = load_spec(Path(__file__).parent / "streams" / "orders.yaml")
group: dict[str, Any] = {"group": "{{ params.group }}", "kafka": "{{ params.kafka }}"}
soon: dict[str, Any] = {"poke_interval": 1, "timeout": 400}
# Airflow 3.3.2 fails a task that resumes before its scheduler has seen that it deferred (apache/airflow#71580, #72716);
# this happens when the machine is busy. What our operators refuse is never retried.
retried: dict[str, Any] = {"retries": 5, "retry_delay": timedelta(seconds=1)}

with DAG(
    "measure", schedule=None, params={"group": Param("nobody"), "kafka": Param("kafka_default")}, default_args=retried
):
    KafkaLagOperator(task_id="stream", stream=orders)
    KafkaLagOperator(task_id="group", **group)
    KafkaLagOperator(task_id="here", **group, deferrable=False)

with DAG(
    "judge", schedule=None, params={"group": Param("nobody"), "kafka": Param("kafka_default")}, default_args=retried
):
    KafkaLagSensor(task_id="stream", stream=orders, for_at_least=2, **soon)
    KafkaLagSensor(task_id="group", max_records=5, unknown="skip", **group, **soon)
    KafkaLagSensor(task_id="patient", max_records=5, unknown="wait", **group, poke_interval=1, timeout=4)

with DAG("gate", schedule=None, default_args=retried):
    # Fixed for the run: by default it is when a try begins to wait, and a retry would wait for later records too.
    StreamCaughtUpSensor(task_id="caught_up", stream=orders, moment="{{ dag_run.start_date }}", **soon)

behind = Asset(
    "orders_behind", watchers=[AssetWatcher(name="lag", trigger=LagEventTrigger.of(stream=orders, interval=1))]
)

# Airflow fails a task, before it begins, whose process it cannot start in time on a busy machine.
with DAG("behind", schedule=[behind], default_args=retried):

    @task
    def tell(triggering_asset_events: Any) -> list[Any]:
        return [event.extra for event in triggering_asset_events[behind]]

    tell()  # type: ignore[call-arg, misc]  # Airflow passes the argument

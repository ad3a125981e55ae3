# dags/orders_lag.py
from pathlib import Path

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_stream_provider.notifications.lag import LagNotifier
from airflow_stream_provider.operators.lag import KafkaLagOperator
from airflow_stream_provider.sensors.lag import KafkaLagSensor, StreamCaughtUpSensor
from airflow_stream_provider.spec.stream import load_spec
from airflow_stream_provider.triggers.lag_event import LagEventTrigger

orders = load_spec(Path(__file__).parent / "streams" / "orders.yaml")

# Give retries: Airflow to 3.3.2 may fail a task that resumes before the scheduler saw it defer (apache/airflow#72716).
with DAG("orders__hourly", schedule="@hourly", default_args={"retries": 2}):
    # A gate: passes when every record of this hour is in the output.
    caught_up = StreamCaughtUpSensor(task_id="caught_up", stream=orders, moment="{{ data_interval_end }}", timeout=1800)
    # Passes within the limits of the YAML; fails when the lag has been beyond them for five minutes.
    keeps_up = KafkaLagSensor(
        task_id="keeps_up",
        stream=orders,
        for_at_least=300,
        # to=[SmtpNotifier(...)]: see orders_notify.py
        on_failure_callback=LagNotifier(stream=orders, to=[]),
    )
    # Returns the report as XCom; here for a consumer group that is not a stream.
    loader = KafkaLagOperator(task_id="loader", group="loader", kafka="kafka_default")
    caught_up >> keeps_up >> loader

behind = Asset(
    "orders_behind", watchers=[AssetWatcher(name="lag", trigger=LagEventTrigger.of(stream=orders, seconds=120))]
)

# Runs once when the lag has been beyond its limits for two minutes, and once when it is within them again.
with DAG("orders__behind", schedule=[behind]):

    @task
    def act(triggering_asset_events: dict) -> None:
        event = triggering_asset_events[behind][-1].extra["payload"]
        print(event["event"], event["incident"], event["reasons"], event["lag"]["records"])

    act()

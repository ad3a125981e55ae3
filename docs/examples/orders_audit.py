# dags/orders_audit.py
from datetime import date
from pathlib import Path

from airflow.sdk import DAG

from airflow_stream_provider.audit import Waiver
from airflow_stream_provider.operators.audit import KafkaTopicAuditOperator, SparkAuditOperator
from airflow_stream_provider.spec.stream import load_spec

orders = load_spec(Path(__file__).parent / "streams" / "orders.yaml")

with DAG("orders__audit", schedule="@daily"):
    SparkAuditOperator(task_id="audit_spark", stream=orders)
    KafkaTopicAuditOperator(
        task_id="audit",
        stream=orders,  # names Kafka's connection; its own record names the topics
        fail_on="high",  # or info, low, medium, critical
        outage=2 * 86_400,  # the longest planned outage of the stream, in seconds
        catch_up=6 * 3_600,  # the time to read what has piled up, in seconds; default: as long as the outage
        producer={"acks": "all", "enable.idempotence": "true"},  # of those who write the topics
        waivers=[
            Waiver(
                check="quorum",
                subject="the cluster",  # as in findings; without it: everything that the check examines
                reason="One controller until the move to the new racks",
                until=date(2027, 3, 31),  # the last day on which it holds, in UTC
            ),
        ],
    )

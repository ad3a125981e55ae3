"""One task that says which connections of the stack it sees."""

from datetime import timedelta
from typing import Any

from airflow.sdk import BaseHook, dag, task


# Airflow fails a task, before it begins, whose process it cannot start in time on a busy machine.
@dag(schedule=None, default_args={"retries": 5, "retry_delay": timedelta(seconds=1)})
def trivial() -> None:
    @task
    def connections(**context: Any) -> list[str]:
        kafka, spark = BaseHook.get_connection("kafka_default"), BaseHook.get_connection("spark_default")
        return [context["params"]["greeting"], kafka.extra_dejson["bootstrap.servers"], spark.extra_dejson["rest_url"]]

    connections()


trivial()

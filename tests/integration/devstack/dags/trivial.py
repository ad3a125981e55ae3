"""One task that says which connections of the stack it sees."""

from typing import Any

from airflow.sdk import BaseHook, dag, task


@dag(schedule=None)
def trivial() -> None:
    @task
    def connections(**context: Any) -> list[str]:
        kafka, spark = BaseHook.get_connection("kafka_default"), BaseHook.get_connection("spark_default")
        return [context["params"]["greeting"], kafka.extra_dejson["bootstrap.servers"], spark.extra_dejson["rest_url"]]

    connections()


trivial()

"""Whether the packages of a release can fit the Spark of its cluster."""

from __future__ import annotations

import pytest

from airflow_stream_provider.hooks.preflight import package_findings

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:"


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {"spark.jars.packages": f"{KAFKA}4.0.0, io.delta:delta-spark_2.13:4.1.0"},
        {
            "spark.jars": "/opt/jars/spark-sql-kafka-0-10_2.13-4.0.0.jar,/opt/jars/spark-tools.jar,s3a://jars/own-1.0.jar"
        },
    ],
)
def test_packages_of_its_own_version_and_those_of_others_are_fine(conf: dict[str, str]) -> None:
    assert package_findings(conf, "4.0.0") == []


def test_parts_of_another_spark_are_shown() -> None:
    conf = {
        "spark.jars.packages": f"{KAFKA}4.2.0",
        "spark.jars": "s3a://j/spark-token-provider-kafka-0-10_2.13-3.5.7.jar",
    }
    [found] = package_findings(conf, "4.0.0")
    assert not found.refuses
    assert found.text == (
        "The release names spark-sql-kafka-0-10_2.13 4.2.0, spark-token-provider-kafka-0-10_2.13 3.5.7, and drivers of "
        "this stream run Spark 4.0.0, by the last heartbeat."
    )
    assert package_findings(conf, "") == [], "no driver has said which Spark it runs"


@pytest.mark.parametrize(("conf", "spark"), [({}, "5.0.1"), ({"spark.jars.packages": f"{KAFKA}5.0.1"}, "")])
def test_an_untried_spark_is_named_once_however_it_is_known(conf: dict[str, str], spark: str) -> None:
    [found] = package_findings(conf, spark)
    assert not found.refuses
    assert found.text.startswith("Spark 5.0.1 is untried: this provider was run on 3.5, ")


@pytest.mark.parametrize("words", ["spark-sql-kafka", "a:b", "a:b:c:d", "a:b:"])
def test_what_is_no_package_refuses(words: str) -> None:
    [found] = package_findings({"spark.jars.packages": f"{KAFKA}4.0.0,{words}"}, "4.0.0")
    assert found.refuses
    assert repr(words) in found.text

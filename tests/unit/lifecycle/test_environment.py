"""What a `standby` record may say of a driver's surroundings, and how it is read back."""

from __future__ import annotations

import dataclasses
import json

import pytest

from airflow_stream_provider.lifecycle.environment import MOST_SETTINGS, Environment, QueryEnvironment, allowed


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("spark.speculation", "true", "true"),
        ("spark.deploy.recoveryMode", "NONE", "NONE"),
        ("spark.driver.extraJavaOptions", "-Dpassword=abc -XX:+UseSerialGC -Dlog4j2.configurationFile=/a/b", None),
        ("spark.app.name", "orders", None),
        ("spark.hadoop.fs.s3a.access.key", "AKIA", None),
        ("spark.kafka.clusters.a.sasl.token.password", "abc", None),
        ("spark.sql.streaming.some.password", "abc", None),
        ("spark.scheduler.allocation.file", "https://anna:abc@host/pools", None),
        ("spark.scheduler.allocation.file", f"https://anna:{'abc' * 100}@host/pools", None),
    ],
)
def test_a_setting_is_kept_by_its_name_and_never_with_a_secret(name: str, value: str, kept: str | None) -> None:
    found = allowed({name: value})
    if name.endswith("JavaOptions"):
        assert found == {name: "-XX:+UseSerialGC -Dlog4j2.configurationFile"}
    else:
        assert found == ({} if kept is None else {name: kept})


def test_what_a_script_sets_makes_no_record_large() -> None:
    many = allowed({f"spark.sql.streaming.x{number}": "y" * 1000 for number in range(1000)})
    assert len(many) == MOST_SETTINGS
    assert len(json.dumps(many)) < 40_000


def test_it_is_read_as_it_was_written() -> None:
    written = Environment(
        spark="4.0.0",
        conf={"spark.speculation": "true"},
        places={"local folder 1": {"path": "/tmp", "mount": "ext4", "replication": None}},
        persisted=({"name": "v", "level": "MEMORY", "replicas": 1},),
        queries={"orders": QueryEnvironment(kafka_partitions=6)},
    )
    assert Environment.from_json(json.loads(json.dumps(dataclasses.asdict(written)))) == written


@pytest.mark.parametrize(
    "said", [None, "x", [], {"conf": "x"}, {"queries": {"a": 1}}, {"queries": {"a": {"stores": "x"}}}]
)
def test_nothing_is_known_of_a_driver_that_says_nothing_of_it(said: object) -> None:
    assert Environment.from_json(said) == Environment()


def test_a_newer_driver_may_say_more() -> None:
    assert Environment.from_json({"spark": "4.0.0", "moon": 1}).spark == "4.0.0"

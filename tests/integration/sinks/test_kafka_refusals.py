"""What the sink for Kafka refuses, and what it says: rows, topics and clusters that are no good, and rights."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_stream_provider.sinks import BadRows, SinkError, SinkRefused
from airflow_stream_provider.sinks.kafka import kafka
from airflow_stream_provider.sinks.kafka_topic import LEDGER, Record, check_record_columns
from airflow_stream_provider.sinks.ledger import Target, Writer
from devstack.certificates import Certificates
from devstack.drivers import wait_for
from devstack.kafka_cluster import USERS, KafkaCluster
from devstack.kafka_writes import create_topics
from tests.support.kafka_sink import Bus, numbers
from tests.support.ledgers import PLAIN, batch

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Record(b"k", b"v", None, 3), "is for partition 3, and the topic has 3"),
        (Record(), "has neither key nor value"),
        (Record(b"k", b"v", [("a", None)]), "has a header without a name or a value"),
        (Record(b"k", b"v" * (1 << 20)), "has about 1048705 bytes, and it takes 1048576"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_a_sentence_and_nothing_is_written(
    bus: Bus, given: Record, says: str
) -> None:
    mine = bus.ledger()
    with pytest.raises(BadRows, match=says):
        mine.write([Record(b"k", b"1"), given], batch(0, 0, 2))
    rehearsal: Any = bus.kafka.ledger(Writer("", "", "a rehearsal"), Target(bus.topic))
    with pytest.raises(BadRows, match=says):
        rehearsal.rehearse([given])
    assert bus.everything() == []
    assert mine.entry().query_id == ""
    assert mine.write(numbers(0, 1), batch(0, 0, 1)) == 1


def test_what_a_broker_does_not_take_is_refused_and_not_tried_again(bus: Bus) -> None:
    mine = bus.ledger()
    mine._topic = replace(mine._topic, largest=1 << 30)
    bus.kafka._settings["max_request_size"] = 1 << 30  # type: ignore[index]
    mine._drop()
    mine.entry()
    mine._topic = replace(mine._topic, largest=1 << 30)
    with pytest.raises(BadRows, match="does not take a row for the topic"):
        mine.write([Record(b"k", b"1"), Record(b"k", b"v" * (2 << 20))], batch(0, 0, 2))
    assert bus.committed() == []
    assert mine.entry().query_id == ""
    assert mine.write(numbers(0, 1), batch(0, 0, 1)) == 1


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"value": StringType(), "id": LongType()}, "it has a column id"),
        ({"value": LongType()}, "value is bigint"),
        ({"key": StringType()}, "it has no column value"),
    ],
)
def test_columns_that_no_record_has_are_refused(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRows, match=says):
        check_record_columns(StructType([StructField(name, kind) for name, kind in columns.items()]))


@pytest.mark.parametrize("argument", [{"key": ("id",)}, {"delete": "gone"}, {"create": True}])
def test_arguments_that_no_topic_has_are_refused(argument: dict[str, Any]) -> None:
    with pytest.raises(SinkRefused, match=f"A topic has no argument '{next(iter(argument))}'"):
        kafka("bus", servers="x:1").ledger(PLAIN, Target("orders", **argument))


def test_a_topic_that_is_missing_is_said_before_the_claim_and_is_not_made(bus: Bus) -> None:
    bus.topic = "nowhere"
    with pytest.raises(BadRows, match="There is no topic nowhere"):
        bus.ledger()
    with bus.cluster.client() as client:
        assert client.topics(["nowhere"]) == {}


def test_a_ledger_that_kafka_would_forget_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KafkaCluster(tmp_path / "kafka") as cluster:
        bus = Bus(cluster, monkeypatch)
        with cluster.client() as client:
            create_topics(client, {LEDGER: 1})
        with pytest.raises(SinkRefused, match="The topic stream_ledger is not compacted"):
            bus.ledger()


def test_a_cluster_that_is_away_is_said_without_its_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 500, "security_protocol": "SASL_PLAINTEXT"}
    settings |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "somebody", "sasl_plain_password": "hunter2"}
    (tmp_path / "bus").write_text(json.dumps(settings))
    monkeypatch.setenv("STREAM_SINK_BUS_FILE", str(tmp_path / "bus"))
    away = kafka("bus")
    with pytest.raises(SinkError) as found:
        away.ledger(PLAIN, Target("orders")).claim()
    assert "bus cannot be reached" in str(found.value)
    assert "127.0.0.1" not in str(found.value)
    assert "hunter2" not in f"{found.value}{away}{away._settings}"


def test_a_user_with_the_rights_that_the_page_names_writes_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

    certificates = Certificates(tmp_path)
    with KafkaCluster(tmp_path / "kafka", secure=certificates) as cluster:
        bus = Bus(cluster, monkeypatch)
        settings = {"bootstrap_servers": cluster.at("SASL_SSL"), "security_protocol": "SASL_SSL"}
        settings |= {"sasl_mechanism": "PLAIN", "ssl_cafile": str(certificates.authority)}
        settings |= {"sasl_plain_username": "streams", "sasl_plain_password": USERS["streams"]}
        monkeypatch.setenv("STREAM_SINK_BUS", json.dumps(settings))
        bus.kafka = kafka("bus")
        with pytest.raises(SinkError) as found:
            bus.ledger()
        assert USERS["streams"] not in str(found.value)
        rights = {
            (ResourceType.TOPIC, LEDGER): "CREATE READ WRITE DESCRIBE DESCRIBE_CONFIGS",
            (ResourceType.GROUP, LEDGER): "READ DESCRIBE",
            (ResourceType.TRANSACTIONAL_ID, LEDGER): "WRITE DESCRIBE",
            (ResourceType.TOPIC, bus.topic): "WRITE DESCRIBE DESCRIBE_CONFIGS",
        }
        allow = ACLPermissionType.ALLOW
        with cluster.client() as client:
            for (kind, name), operations in rights.items():
                rule = ResourcePattern(kind, name, ACLResourcePatternType.PREFIXED)
                for operation in operations.split():
                    client._admin.create_acls([ACL("User:streams", "*", ACLOperation[operation], allow, rule)])

        def claimed() -> bool:
            with contextlib.suppress(SinkError):
                return bool(bus.ledger(PLAIN))
            return False

        wait_for("the broker to know the rights", claimed, 120)
        mine: Any = bus.made[-1]
        assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
        mine.close()
        bus.ledger(PLAIN, holder="a second one")
        assert bus.committed() == list(range(10))

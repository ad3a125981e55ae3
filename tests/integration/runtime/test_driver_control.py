"""Real drivers whose control log is in a topic of a real broker: deploy, hand over, outage, roll back, stop."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.kafka.control_root import TopicRoot
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StreamError
from airflow_stream_provider.runtime.places import PROPERTIES, client_settings, open_owners
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from devstack.kafka_cluster import KafkaCluster
from tests.support.hand_run import end, show
from tests.support.jvm_drivers import connector
from tests.support.one_broker import kafka, root_of
from tests.support.orders_files import Orders

__all__ = ["kafka", "root_of"]
_numbers = itertools.count(1)
APP = Path(__file__).parents[2] / "support" / "app_orders_files.py"


@pytest.fixture
def stream(tmp_path: Path, root_of: Callable[[str], TopicRoot]) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path, root_of(f"streams-{next(_numbers)}")) as found:
        found.spark_conf["spark.driver.extraClassPath"] = connector()
        yield found
    show(found)


@pytest.mark.system  # two minutes
def test_a_stream_is_handed_over_through_kafka_outlives_its_outage_and_is_stopped(
    stream: HandRunStream, orders: Orders, kafka: KafkaCluster
) -> None:
    orders.flow()
    stream.deploy("orders-1", APP, str(orders.root))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for("the first orders", lambda: len(orders.delivered()) > 50)
    stream.deploy("orders-2", APP, str(orders.root))
    two = stream.standby("orders-2")
    stream.hand_over(two)
    orders.go_on("orders by the second")

    kafka.stop(1)
    orders.go_on("orders while the control log is away", 0)
    kafka.start(1)
    seen = wait_for("a heartbeat that can be read", lambda: _counter(stream, two))
    wait_for("one after it", lambda: _counter(stream, two) > int(str(seen)))

    stream.hand_over(one)
    end(stream, orders)


def test_what_the_drivers_own_file_says_goes_before_what_airflow_says(
    stream: HandRunStream, orders: Orders, kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "control.properties"
    own.write_text(f"# of this machine\nbootstrap.servers = {kafka.servers}\nclient.id=a-driver-of-this-machine\n")
    monkeypatch.setenv(PROPERTIES, str(own))
    monkeypatch.setattr(stream.control, "driver_arguments", lambda: ("--brokers", "127.0.0.1:1"))
    orders.write()
    driver = stream.deploy("orders-1", APP, str(orders.root))
    stream.standby("orders-1")
    assert "clientId=a-driver-of-this-machine" in driver.log()


def test_a_file_of_settings_that_is_missing_is_named(
    stream: HandRunStream, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROPERTIES, str(tmp_path / "nowhere.properties"))
    driver = stream.deploy("orders-1", APP, str(orders.root))
    assert driver.exit_code() != 0
    assert "nowhere.properties, which cannot be read on the driver's machine: NoSuchFileException." in driver.log()


@pytest.mark.parametrize("content", [b"sasl.jaas.config=\xff\n", b"sasl.jaas.config=\\u00zz\n", None])
def test_a_file_of_settings_that_is_none_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    own = tmp_path / "control.properties"
    if content is None:
        own.mkdir()
    else:
        own.write_bytes(content)
    monkeypatch.setenv(PROPERTIES, str(own))
    with pytest.raises(SpecError, match=r"control.properties, which cannot be read on the driver's machine: \w+\."):
        client_settings("127.0.0.1:1")


def test_what_the_file_says_is_not_in_the_log_of_a_script_that_logs_all_calls(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "control.properties"
    own.write_text('sasl.jaas.config=a.Module required password="hunter2 — ü";\n', "utf-8")
    monkeypatch.setenv(PROPERTIES, str(own))
    caplog.set_level(logging.DEBUG, "py4j")
    with contextlib.suppress(StreamError):
        open_owners("kafka://kafka_test/streams", "127.0.0.1:1").owner("hdfs://nn/a")
    assert own.name in caplog.text
    assert "hunter2" not in caplog.text
    assert client_settings("").getProperty("sasl.jaas.config") == 'a.Module required password="hunter2 — ü";'


def _counter(stream: HandRunStream, incarnation: str) -> int:
    with contextlib.suppress(ControlUnavailable):
        beat = stream.log.heartbeat(incarnation)
        return beat.counter if beat else 0
    return 0

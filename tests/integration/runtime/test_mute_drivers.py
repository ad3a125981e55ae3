"""Drivers that cannot reach their control log: their own log says why, and so does the task that waits for them.

Those of a log in Kafka are submitted beside a holder, which goes on as if nothing had happened.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.control import make_root
from airflow_stream_provider.kafka.control_root import TopicRoot
from airflow_stream_provider.planning.conditions import StandbyUp
from airflow_stream_provider.planning.waits import Ended
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from devstack.kafka_cluster import KafkaCluster
from tests.support.hand_run import show
from tests.support.jvm_drivers import connector
from tests.support.namespaces import needs_namespaces
from tests.support.one_broker import kafka, root_of
from tests.support.orders_files import Orders
from tests.support.team import APP, Team, team
from tests.support.unmounted import without

__all__ = ["kafka", "root_of", "team", "without"]
_numbers = itertools.count(1)


@needs_namespaces
def test_one_whose_machine_does_not_mount_the_control_folder_and_the_releases_in_it(
    tmp_path: Path, team: Team, without: Callable[[Path], None]
) -> None:
    control = tmp_path / "control"
    make_root(control.as_uri())
    without(control)
    task = team.upgrade(control.as_uri(), str(tmp_path))
    task.go_on(task.wait())
    print(task.error)
    assert "Its driver never came up: its driver is gone (failed)." in task.error
    assert f"The driver's machine does not have the folder of the release, {control}/orders/releases/" in task.error
    assert f"Mount {control.as_uri()} there under the same path" in task.error


@needs_namespaces
def test_one_whose_machine_has_the_releases_and_not_the_control_folder(
    tmp_path: Path, team: Team, without: Callable[[Path], None]
) -> None:
    control, releases = tmp_path / "control", tmp_path / "releases"
    make_root(control.as_uri())
    without(control)
    task = team.upgrade(control.as_uri(), str(tmp_path), storage=releases)
    task.go_on(task.wait())
    print(task.error)
    assert "Its driver never came up: its driver is gone (failed)." in task.error
    assert f"{control} is not a control root: it has no file .control-root." in task.error
    assert "Mount the control folder on this machine, or correct `control` in the YAML." in task.error


@pytest.fixture
def held(
    tmp_path: Path,
    kafka: KafkaCluster,
    root_of: Callable[[str], TopicRoot],
    orders: Orders,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[HandRunStream]:
    """A stream with a holder that runs; every order came out once when the test is over, and it holds as before."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", json.dumps({"conn_type": "kafka", "extra": dict(kafka.extra)}))
    with hand_run_stream(tmp_path / "run", root_of(f"streams-{next(_numbers)}")) as stream:
        stream.spark_conf["spark.driver.extraClassPath"] = connector()
        orders.flow()
        stream.deploy("orders-1", APP, str(orders.root))
        one = stream.standby("orders-1")
        stream.hand_over(one)
        wait_for("the first orders", lambda: len(orders.delivered()) > 50)
        yield stream
        orders.go_on("orders after it")
        assert (stream.state.holder, stream.state.epoch) == (one, 1)
        orders.dry()
        orders.check()
    show(stream)


@pytest.mark.system  # a holder and a broker
def test_one_without_kafka_s_client_says_so_in_the_task(held: HandRunStream, orders: Orders, team: Team) -> None:
    task = team.upgrade(held.url, str(orders.root), storage=team.folder / "releases")
    task.go_on(task.wait())
    print(task.error)
    assert "Its driver never came up: its driver is gone (failed)." in task.error
    assert "The driver's JVM has no Kafka client on its class path, and the control log is in Kafka." in task.error
    assert "Add the jars of Spark's Kafka connector to the submission: spark.jars.packages" in task.error
    assert "Kafka client" not in str(held.log.records()), "the log is read by more people than a task"


@pytest.mark.system
def test_one_without_a_way_to_the_brokers_says_so_while_it_tries_and_when_it_is_gone(
    held: HandRunStream, orders: Orders, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandbyUp, "MUTE_SECONDS", 5.0)
    monkeypatch.setattr(TopicRoot, "driver_arguments", lambda self: ("--brokers", "127.0.0.1:1"))
    jars = held.spark_conf["spark.driver.extraClassPath"]
    task = team.upgrade(
        held.url, str(orders.root), storage=team.folder / "releases", conf={"spark.driver.extraClassPath": jars}
    )
    sentence = "of 127.0.0.1:1 cannot be used now: no broker has answered, and the driver asks without TLS"

    def told() -> bool:
        outcome = task.wait()
        assert outcome.ended is Ended.EXPIRED, outcome
        task.go_on(outcome)
        return sentence in task.said

    wait_for("the task to say why nothing comes", told)
    assert (
        "has not written to the control log yet. The driver is running.\nThe end of the log of its driver:\n"
        in task.said
    )
    team.kill()
    task.go_on(task.wait())
    print(task.said, task.error)
    assert "Its driver never came up: its driver is gone" in task.error
    assert sentence in task.error

"""A stream that a test runs by hand: one that reads Kafka, how it ends, and what is shown of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.lifecycle.state import StreamPhase
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.orders_files import Orders
from tests.support.spark_jars import kafka_connector


@contextlib.contextmanager
def reads_kafka(folder: Path, control: ControlRoot | None = None) -> Iterator[HandRunStream]:
    """Yield a stream whose drivers have Spark's connector, as with `--packages`: known to its own class loader only."""
    with hand_run_stream(folder, control) as found:
        found.spark_conf["spark.jars"] = ",".join(map(str, kafka_connector()))
        yield found
    show(found)


def hand_over_and_back(stream: HandRunStream, orders: Orders, holder: str, deployment: str) -> None:
    """Hand over to a deployment that was just submitted, and back; insist that it has rehearsed on clones of the state.

    :param holder: who holds.
    """
    other = stream.standby(deployment)
    rehearsed = stream.state.incarnations[other].rehearsal["queries"]
    assert {name: summary["on"] for name, summary in rehearsed.items()} == dict.fromkeys(
        ("lines", "totals"), "a clone of the state"
    )
    for to in (other, holder):
        stream.hand_over(to)
        orders.go_on("orders by the next")


def end(stream: HandRunStream, orders: Orders) -> None:
    """Stop a stream that was handed over once and rolled back, and retire its two releases; insist on how it went.

    Every order came out once, and none after the stop.
    """
    orders.dry()
    orders.check()
    stream.request(None)
    wait_for("the stop", lambda: stream.state.phase is StreamPhase.STOPPED)
    assert [r["boundary"] for r in stream.records("released")] == ["completed"] * 3
    assert [r["epoch"] for r in stream.records("acquired")] == [1, 2, 3]
    for deployment in ("orders-1", "orders-2"):
        stream.append("retired", deployment=deployment, reason="test")
    assert [driver.exit_code() for driver in stream.drivers] == [0, 0]
    orders.check()


def show(stream: HandRunStream) -> None:
    """Print what is shown when a test fails."""
    for record in stream.log.records():
        print(record)
    for driver in stream.drivers:
        print(f"----- {driver.deployment}\n{driver.log()[-6000:]}")

"""Real drivers of two versions on one stream, the recorded runtime and today's; the log in a folder, and in a topic.

Today the two may be the same. tests/unit/formats/test_other_runtime.py does it without Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.control.releases import RUNTIME_ZIP
from airflow_stream_provider.kafka.control_root import TopicRoot
from airflow_stream_provider.lifecycle.state import StreamPhase
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.jvm_drivers import connector
from tests.support.older_release import older_runtime
from tests.support.one_broker import kafka, root_of
from tests.support.orders_files import Orders
from tests.support.other_side import OLDER, OtherSide, side
from tests.support.recorded import check_written_heartbeat, check_written_record

__all__ = ["kafka", "root_of", "side"]

_numbers = itertools.count(1)
APP = Path(__file__).parents[2] / "support" / "app_orders_files.py"


@pytest.fixture(params=["file", "kafka"])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HandRunStream]:
    control = None
    if request.param == "kafka":
        root_of: Callable[[str], TopicRoot] = request.getfixturevalue("root_of")
        control = root_of(f"streams-{next(_numbers)}")
    with hand_run_stream(tmp_path, control) as found:
        if control is not None:
            found.spark_conf["spark.driver.extraClassPath"] = connector()
        yield found
    show(found)


def delivers(orders: Orders) -> None:
    """Wait until the driver that holds has delivered orders."""
    orders.go_on("orders of the holder")


def check_all_written(stream: HandRunStream) -> None:
    """Check what the drivers have written against what is recorded of format 1."""
    for record in stream.log.records():
        if record.by.startswith("driver:"):
            check_written_record(record)
    beats = stream.log.heartbeats()
    assert len(beats) >= 2
    for beat in beats.values():
        check_written_heartbeat(beat)


@pytest.mark.system
def test_an_older_driver_is_watched_handed_over_and_rolled_back_to(stream: HandRunStream, orders: Orders) -> None:
    orders.flow()
    with older_runtime():
        stream.deploy("orders-1", APP, str(orders.root))
    first = stream.state.deployments["orders-1"]
    published = stream.folder / "releases" / first.release.hash / RUNTIME_ZIP
    assert published.read_bytes() == OLDER.read_bytes()
    one = stream.standby("orders-1")
    stream.hand_over(one)
    delivers(orders)

    def progress() -> bool:
        beat = stream.log.heartbeat(one)
        return beat is not None and beat.phase == "running" and all(query.commits for query in beat.queries)

    wait_for("its commits in the heartbeat", progress)
    stream.deploy("orders-2", APP, str(orders.root))
    two = stream.standby("orders-2")
    for to in (two, one, two):
        stream.hand_over(to)
        delivers(orders)

    # Its driver is gone by now: the release is declared again, copied from its record as Airflow does.
    stream.append("retired", deployment="orders-1", reason="test")
    assert stream.drivers[0].exit_code() == 0
    copied = {name: first.declared[name] for name in ("release", "policy")}
    stream.append("declared", deployment="orders-3", again="orders-1", instead_of="orders-2", **copied)
    stream.launch("orders-3", APP.name, str(orders.root))
    stream.hand_over(stream.standby("orders-3"))
    delivers(orders)
    stream.request(None)
    wait_for("the stop", lambda: stream.state.phase is StreamPhase.STOPPED)
    orders.dry()

    assert [r["boundary"] for r in stream.records("released")] == ["completed"] * 5
    assert stream.state.illegal_count == 0
    check_all_written(stream)
    # What the last batches have not read is read by the next driver.
    stream.deploy("orders-4", APP, str(orders.root))
    stream.hand_over(stream.standby("orders-4"))
    orders.check()


@pytest.mark.system
def test_an_older_airflow_side_deploys_watches_hands_over_and_rolls_back(
    stream: HandRunStream, orders: Orders, side: Callable[..., OtherSide], monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow = side("older", stream.url, *stream.control.driver_arguments()[1:])
    monkeypatch.setattr(stream, "append", airflow.append)

    def holds(incarnation: str) -> None:
        stream.request(incarnation)
        wait_for(f"{incarnation} to hold", lambda: airflow("state")["holder"] == incarnation)
        delivers(orders)

    orders.flow()
    stream.deploy("orders-1", APP, str(orders.root))
    one = stream.standby("orders-1")
    holds(one)
    # Deployed by today's Airflow, which was put back since: the older one hands over to it all the same.
    stream.deploy("orders-2", APP, str(orders.root))
    two = stream.standby("orders-2")
    for to in (two, one):
        holds(to)

    def phases() -> dict[str, str]:
        return {name: beat["phase"] for name, beat in airflow("heartbeats").items()}

    wait_for("both phases in the heartbeats", lambda: phases() == {one: "running", two: "standby"})
    state = airflow("state")
    assert (state["phase"], state["epoch"], state["illegal_count"]) == ("running", 3, 0)
    orders.dry()
    orders.check()
    stream.request(None)
    wait_for("the stop", lambda: airflow("state")["phase"] == "stopped")
    for deployment in ("orders-1", "orders-2"):
        airflow.append("retired", deployment=deployment, reason="test")
    assert [driver.exit_code() for driver in stream.drivers] == [0, 0]
    assert [r["boundary"] for r in stream.records("released")] == ["completed"] * 3
    check_all_written(stream)

"""What a release writes that the one before cannot read is seen by its rehearsal, on a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from airflow_stream_provider.checkpoint import formats
from airflow_stream_provider.planning.asked import Asked
from airflow_stream_provider.planning.forecast import forecast
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.orders_files import Orders

APP = Path(__file__).parents[2] / "support" / "app_lines_files.py"
VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has one format of commits/")
def test_a_commit_log_that_the_release_before_cannot_read_is_refused_unless_that_is_accepted(
    stream: HandRunStream, orders: Orders
) -> None:
    checkpoint = str(orders.root / "checkpoints" / "lines")
    orders.flow()
    stream.deploy("orders-1", APP, str(orders.root))
    stream.hand_over(stream.standby("orders-1"))
    orders.go_on("the first orders")

    stream.spark_conf = {VERSION: "2"}
    accepted: dict[str, Any] = {"rehearse_batches": 2}
    stream.deploy("orders-2", APP, str(orders.root), **accepted)
    if pyspark.__version__ >= "4.3":
        # It goes on in the format that the checkpoint has, whatever its setting says: there is a way back.
        two = stream.standby("orders-2")
        assert not stream.state.incarnations[two].rehearsal.get("one_way")
        stream.hand_over(two)
        orders.go_on("orders in the old format")
        assert formats(checkpoint).versions == {"offsets/": 1, "commits/": 1}
        return
    wait_for("the refusal", lambda: stream.state.deployments["orders-2"].ended)
    reason = stream.state.deployments["orders-2"].reason
    if pyspark.__version__.startswith(("4.0", "4.1")):
        # It reads no other version than its setting says (EXACT_MATCH_VERSION), and so refuses by itself.
        assert "Spark refuses to run the query lines on the stream's checkpoint" in reason
        return
    assert "There would be no way back: The query lines writes commits/ in format v2 instead of v1." in reason
    assert formats(checkpoint).versions == {"offsets/": 1, "commits/": 1}

    stream.deploy("orders-3", APP, str(orders.root), **accepted, no_way_back=True)
    three = stream.standby("orders-3")
    seen = ["The query lines writes commits/ in format v2 instead of v1."]
    assert stream.state.incarnations[three].rehearsal["one_way"] == seen
    stream.hand_over(three)
    orders.go_on("orders after the hand-over")
    wait_for("the new format", lambda: formats(checkpoint).versions["commits/"] == 2)
    look = Snapshot("orders", 0.0, stream.state, tuple(stream.log.records()))
    assert forecast(Asked(look, Operation.ROLL_BACK)).refused.startswith("There is no way back from release orders-3")

    # What helps: an upgrade to the old release, whose rehearsal says whether it can read that. With this Spark it can.
    stream.spark_conf = {}
    stream.deploy("orders-4", APP, str(orders.root))
    four = stream.standby("orders-4")
    assert stream.state.holder == three
    stream.hand_over(four)
    orders.go_on("orders by the old release again")

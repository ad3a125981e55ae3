"""Whose a checkpoint is that has two names, with real links and real drivers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.checkpoint import locate, owner
from airflow_stream_provider.control import FilesRoot
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.orders_files import Orders

APP = Path(__file__).parents[2] / "support" / "app_orders_files.py"


@pytest.mark.system
def test_a_stream_that_reaches_a_checkpoint_by_a_link_keeps_every_other_one_away(
    tmp_path: Path, orders: Orders
) -> None:
    """Each of its two queries has a link of its own: the last part of the checkpoint's path."""
    real, names = orders.root / "checkpoints", orders.root / "names"
    for query in ("lines", "totals"):
        (real / query).mkdir(parents=True)
        names.mkdir(exist_ok=True)
        (names / query).symlink_to(real / query)
    with hand_run_stream(tmp_path / "one") as stream:
        orders.write()
        stream.deploy("orders-1", APP, str(orders.root), "1", str(names))
        stream.hand_over(stream.standby("orders-1"))
        wait_for("the first orders", lambda: len(orders.delivered()) == orders.written)
        assert owner(real / "lines") == owner(names / "lines") is not None
        assert {path.name for path in names.iterdir()} == {"lines", "totals"}

        other = HandRunStream(stream.root, "other", FilesRoot(stream.url))
        try:
            other.deploy("other-1", APP, str(orders.root), "1", str(real))
            wait_for("the refusal", lambda: other.records("failed"))
        finally:
            other.stop_all()
        (refused,) = other.records("failed")
        assert "belongs to the stream orders" in f"{refused['reason']} {refused['error']}"

        stream.deploy("orders-2", APP, str(orders.root), "1", str(names))
        stream.hand_over(stream.standby("orders-2"))
        orders.check()
    show(stream)


@pytest.mark.parametrize("spelling", ["{}/link/../cp", "file:{}/link/../cp", "file:///{}//link/.././cp/", "{}/cp/x/.."])
def test_spark_writes_where_the_owner_file_is_beside(spark: SparkSession, tmp_path: Path, spelling: str) -> None:
    """Dots are removed by name, also behind a link; the operating system goes up from where that leads to."""
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/away")
    location = spelling.format(tmp_path)
    query = (
        spark.readStream.format("rate")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", location)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert locate(location) == tmp_path / "cp"
    assert locate(str(query._jsq.streamingQuery().resolvedCheckpointRoot())) == tmp_path / "cp"
    assert (tmp_path / "cp" / "metadata").is_file()

"""Which sinks another driver cannot continue; for real sessions see integration/runtime/test_refused_scripts.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runtime import driver_folders
from airflow_stream_provider.runtime import refused as sinks
from airflow_stream_provider.runtime.refused import check_sink, check_sources
from airflow_stream_provider.runtime.writer_spec import writer_spec_of


def writer(conf: dict[str, str] | None = None, hadoop: dict[str, str] | None = None, **spec: Any) -> Any:
    """A writer of a session with this conf, in which the database of a table is at /warehouse."""
    session = SimpleNamespace(
        conf=SimpleNamespace(get=lambda key, default: (conf or {}).get(key, default)),
        catalog=SimpleNamespace(
            currentCatalog=lambda: (conf or {}).get("current", "spark_catalog"),
            currentDatabase=lambda: "default",
            getDatabase=lambda name: SimpleNamespace(locationUri=(conf or {}).get("location", "file:/warehouse")),
        ),
        sparkContext=SimpleNamespace(
            _jsc=SimpleNamespace(hadoopConfiguration=lambda: SimpleNamespace(get=(hadoop or {}).get))
        ),
    )
    made: Any = SimpleNamespace(_spark=session)
    for name, value in spec.items():
        setattr(writer_spec_of(made), name, value)
    return made


HIVE = {"spark.sql.catalogImplementation": "hive"}
DELTA = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
LAKE = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
WAREHOUSE = "spark.sql.catalog.lake.warehouse"
SHARED = {"hive.metastore.uris": "thrift://metastore:9083"}


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (writer(format="json", target="out"), "relative path out"),
        (writer(format="iceberg", options={"path": "lake/db/t"}), "relative path lake/db/t"),
        (writer(format="delta", options={"path": "./out"}), r"relative path \./out"),
        (writer(format="org.apache.hudi", target="out"), "relative path out"),
        (writer(target="out"), "relative path out"),
        (writer(format="memory", name="q"), "The query q writes to a memory sink in append mode"),
        (writer(format="memory", name="q", output_mode="update"), "in update mode"),
        (writer(target="orders", to_table=True), "in this driver's memory"),
        (writer(DELTA, target="orders", to_table=True), "in this driver's memory"),
        (writer(DELTA, target="spark_catalog.default.orders", to_table=True), "in this driver's memory"),
        (writer({"spark.sql.catalog.orders": "a.Catalog"}, target="orders", to_table=True), "in this driver's memory"),
        (writer({**LAKE, WAREHOUSE: "lake"}, target="lake.db.t", to_table=True), "is the relative path lake"),
        (writer({**LAKE, WAREHOUSE: "./lake", "current": "lake"}, target="t", to_table=True), r"path \./lake"),
        (writer(HIVE, target="db.orders", to_table=True), "Derby"),
        (
            writer(HIVE, {"javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=x"}, target="t", to_table=True),
            "Derby",
        ),
    ],
)
def test_what_only_this_driver_has_is_refused(made: Any, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        check_sink(made)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this driver alone."""
    monkeypatch.setattr(driver_folders, "_own", {str(tmp_path): "the driver's working folder"})
    return tmp_path


def test_a_warehouse_in_a_folder_of_this_driver_is_refused(own: Path) -> None:
    conf = {**HIVE, "location": f"file:{own}/spark%2Dwarehouse"}
    with pytest.raises(SpecError, match=f"its database is in {own}, the driver's working folder"):
        check_sink(writer(conf, SHARED, target="t", to_table=True))


def test_a_catalog_in_a_folder_of_this_driver_is_refused(own: Path) -> None:
    for conf in ({**LAKE, WAREHOUSE: f"{own}/lake"}, {**LAKE, WAREHOUSE: f"file:{own}/lake", "current": "lake"}):
        with pytest.raises(SpecError, match=f"the warehouse of its catalog is in {own}, the driver's working folder"):
            check_sink(writer(conf, target="lake.db.t", to_table=True))


@pytest.mark.parametrize("start", ["", "file:", "file://"])
@pytest.mark.parametrize("sink", ["json", "delta", "iceberg"])
def test_a_path_in_a_folder_of_this_driver_is_refused(own: Path, start: str, sink: str) -> None:
    with pytest.raises(SpecError, match=f"which is in {own}, the driver's working folder: each driver would write"):
        check_sink(writer(format=sink, target=f"{start}{own}/out"))
    check_sink(writer(format=sink, target=f"{start}{own}-2/out"))
    check_sink(writer(format=sink, target=f"hdfs://namenode{own}/out"))


@pytest.mark.parametrize(
    "made",
    [
        writer(format="json", target="/out"),
        writer(format="json", target="s3a://bucket/out"),
        writer(format="json", options={"path": "file:/out"}),
        writer(format="iceberg", options={"path": "lake.orders"}),
        writer(format="es", target="spark/people"),
        writer({"spark.sql.sources.default": "iceberg"}, target="lake.orders"),
        writer(format="kafka", options={"topic": "out"}),
        writer(format="console"),
        writer(format="memory", output_mode="complete"),
        writer(foreach=True),
        writer(HIVE, SHARED, target="orders", to_table=True),
        writer({**HIVE, "location": "hdfs://nn/warehouse"}, SHARED, target="orders", to_table=True),
        writer({**HIVE, **DELTA}, SHARED, target="spark_catalog.default.orders", to_table=True),
        writer(LAKE, target="lake.t", to_table=True),
        writer({**LAKE, WAREHOUSE: "s3://bucket/lake"}, target="lake.db.t", to_table=True),
        writer({**LAKE, WAREHOUSE: "/mnt/lake"}, target="`lake`.db.t", to_table=True),
        writer({**LAKE, WAREHOUSE: "lake", "spark.sql.catalog.lake.type": "rest"}, target="lake.t", to_table=True),
        writer({**LAKE, WAREHOUSE: "lake", "spark.sql.catalog.lake.metastore": "rest"}, target="lake.t", to_table=True),
        writer({"spark.sql.catalog.spark_catalog.uri": "thrift://metastore"}, target="db.t", to_table=True),
        writer({"spark.sql.catalog.spark_catalog.type": "hadoop"}, target="db.t", to_table=True),
        writer({"spark.sql.catalog.spark_catalog.catalog-impl": "a.GlueCatalog"}, target="db.t", to_table=True),
    ],
)
def test_what_all_drivers_share_passes(made: Any) -> None:
    check_sink(made)


@pytest.mark.parametrize(
    ("fetching", "group", "refused"),
    [
        ("true", "orders", True),
        ("TRUE", "orders", True),
        ("false", "orders", False),
        (None, "orders", False),
        ("true", None, False),
    ],
)
def test_a_consumer_group_that_two_drivers_would_be_members_of_is_refused(
    fetching: str | None, group: str | None, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPARK-26350: with Spark's default nobody joins the group. A real one: integration/runtime/test_positions.py."""
    conf = {} if fetching is None else {"spark.sql.streaming.kafka.useDeprecatedOffsetFetching": fetching}
    made = writer(conf, name="lines")
    options = {} if group is None else {"kafka.group.id": group}
    source = SimpleNamespace(extraOptions=lambda: options)
    made._df = None
    monkeypatch.setattr(sinks, "kafka_relations_of", lambda frame: [source])
    if not refused:
        check_sources(made)
        return
    with pytest.raises(SpecError, match="members of one group, so a driver that stands by would take partitions away"):
        check_sources(made)

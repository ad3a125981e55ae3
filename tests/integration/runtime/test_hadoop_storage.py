"""Checkpoints without a scheme, on what Spark's Hadoop takes for its default file system."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.checkpoint import (
    boundary,
    check_location,
    claim,
    clone_state,
    locate,
    read,
    rehearsal_folder,
    rehearsal_folders,
)
from airflow_stream_provider.checkpoint.location import files_of, reach
from airflow_stream_provider.checkpoint.owner import Owner, owner
from airflow_stream_provider.runtime import hadoop_files, places
from devstack.hdfs import Hdfs
from tests.support.remote_query import RemoteQuery

INCARNATION = "orders-1.0000000a"


@pytest.fixture
def with_default(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Sets `fs.defaultFS` of this Spark, and returns its Hadoop conf; put back afterwards."""
    # On a machine that does other things, too.
    monkeypatch.setattr(hadoop_files, "SECONDS", 120.0)
    monkeypatch.setattr(hadoop_files, "CONNECT_SECONDS", 120.0)
    session: Any = spark
    conf = session._jsc.hadoopConfiguration()
    before = conf.get("fs.defaultFS")

    def change(url: str) -> Any:
        conf.set("fs.defaultFS", url)
        reach(places.storage())
        return conf

    yield change
    conf.set("fs.defaultFS", before)
    reach(None)


def test_a_checkpoint_is_on_a_default_file_system_without_a_host(
    spark: SparkSession, hdfs: Hdfs, with_default: Callable[[str], Any]
) -> None:
    """A mount table of Hadoop, as clusters with several NameNodes have it."""
    folder, behind = f"/mounted-{uuid.uuid4()}", f"{hdfs.url}/{uuid.uuid4()}"
    with_default("viewfs:///").set(f"fs.viewfs.mounttable.default.link.{folder}", behind)
    query = RemoteQuery(spark, f"{folder}/live")
    try:
        check_location(query.checkpoint)
        claim(query.checkpoint, "orders", "file:///control")
        query.run()
        clones = rehearsal_folder(query.checkpoint, INCARNATION)
        made = clone_state(query.checkpoint, clones / "warm", str(uuid.uuid4()), 10**9, drop_last_commit=True)
        assert len(query.rehearse(made.path, 1)) == 1
    finally:
        query.stop()
    assert read(query.checkpoint).path == f"viewfs://{folder}/live"
    assert boundary(f"{behind}/live") == boundary(query.checkpoint)
    assert owner(f"{behind}/live") == Owner("orders", "file:///control")
    assert rehearsal_folders(f"{behind}/live").keys() == {INCARNATION}
    assert not Path(folder).exists(), "on the disk of this machine"
    files_of(locate(behind)).remove(locate(behind))


def test_a_default_without_a_scheme_is_the_one_that_hadoop_takes_it_for(with_default: Callable[[str], Any]) -> None:
    with_default("namenode:8020")
    assert str(locate("/a")) == "hdfs://namenode:8020/a"

"""Checkpoints on S3A, and clones of them that the store itself makes: a real S3 server, Spark and Hadoop."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.checkpoint import (
    boundary,
    check_location,
    clone_logs,
    clone_state,
    locate,
    read,
    rehearsal_folder,
    rehearsal_folders,
)
from airflow_stream_provider.checkpoint.location import reach
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.runtime import hadoop_files, places
from airflow_stream_provider.runtime.boundary import stop_at_boundary
from airflow_stream_provider.runtime.ownership import Ownership
from airflow_stream_provider.runtime.places import open_owners
from devstack import s3
from tests.support.at_once import claim_at_once, commit_at_once, replace_while_read
from tests.support.real_storage import PREFIX, real_bucket
from tests.support.remote_query import RemoteQuery

INCARNATION = "orders-1.0000000a"


@contextlib.contextmanager
def real(_: Path) -> Iterator[s3.S3Server]:
    yield real_bucket()  # each test removes what it has written


@pytest.fixture(scope="module", params=[s3.moto, real])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3Server]:
    with request.param(tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture
def root(spark: SparkSession, server: s3.S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    try:
        spark._jvm.java.lang.Class.forName("org.apache.hadoop.fs.s3a.S3AFileSystem")  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 - py4j's
        pytest.skip("this Spark runs without the jars of S3A")
    monkeypatch.setattr(hadoop_files, "SECONDS", 120.0)
    monkeypatch.setattr(hadoop_files, "CONNECT_SECONDS", 120.0)
    for key, value in server.core_site.items():
        spark.conf.set(key, value)
    reach(places.storage())
    made: Any = locate(f"s3a://{server.bucket}/{PREFIX}/{uuid.uuid4()}")
    yield str(made)
    made.files.remove(made)
    reach(None)


def test_a_running_query_is_read_cloned_rehearsed_and_stopped(spark: SparkSession, root: str) -> None:
    live = RemoteQuery(spark, f"{root}/live")
    try:
        live.run()
        assert read(live.checkpoint).id == live.query.id
        folder = rehearsal_folder(live.checkpoint, INCARNATION)
        made = clone_logs(live.checkpoint, folder / "plan", str(uuid.uuid4()))
        assert live.rehearse(made.path, 0) == []
        made = clone_state(live.checkpoint, folder / "warm", str(uuid.uuid4()), 10**9, drop_last_commit=True)
        seen = live.rehearse(made.path, 2)
        assert [number for number, _ in seen] == [made.next_batch, made.next_batch + 1]
        assert all(rows == last + 1 for _, (rows, last) in seen), "every row is in the state, and once"
        assert rehearsal_folders(live.checkpoint) == {INCARNATION: folder}
        live.await_no_clones(folder)
        end = stop_at_boundary(live.query, 120.0)
        assert (end.completed, end.batch) == (True, boundary(live.checkpoint).commit)
    finally:
        live.stop()


def test_files_are_copied_in_the_store_and_through_the_driver_where_it_refuses(root: str) -> None:
    place: Any = locate(f"{root}/cp")
    names = [f"state/0/{partition}/{n}.delta" for partition in range(3) for n in range(1, 4)]
    for name in names:
        place.files.write(place / name, name.encode())
    for target, inside in (("one", True), ("two", False)):
        copy: Any = locate(f"{root}/{target}")
        if not inside:
            place.files._server_side._s3a = None  # as when S3 has refused
        size = place.files.copy(place, [place / name for name in names], copy)
        assert (place.files._server_side._s3a is not None) is inside
        assert size == sum(len(name) for name in names)
        assert {copy.files.read(copy / name).decode() for name in names} == set(names)
    with pytest.raises(FileNotFoundError):
        place.files.copy(place, [place / "state/0/0/9.delta"], locate(f"{root}/three"))


def test_a_store_that_the_script_has_closed_is_opened_again(root: str) -> None:
    place: Any = locate(f"{root}/cp")
    place.files.write(place / "state/0/0/1.delta", b"x")
    assert place.files.copy(place, [place / "state/0/0/1.delta"], locate(f"{root}/one")) == 1
    place.files._system.close()
    assert place.files.copy(place, [place / "state/0/0/1.delta"], locate(f"{root}/two")) == 1
    assert place.files._server_side._s3a is not None


def test_of_ten_streams_one_owns_a_checkpoint(root: str, tmp_path: Path) -> None:
    control = (tmp_path / "control").as_uri()
    won = claim_at_once(control, f"{root}/cp")
    assert len(won) == 1
    assert Ownership(won[0], control, open_owners(control)).check(f"{root}//cp/")


def test_a_bucket_that_does_not_exist_and_a_damaged_file_are_named(root: str) -> None:
    with pytest.raises(CheckpointError, match=r"s3a://no-such-bucket/cp is not writable"):
        check_location("s3a://no-such-bucket/cp")
    assert check_location(f"{root}/cp") == locate(f"{root}/cp")
    place: Any = locate(f"{root}/cp")
    place.files.write(place / "metadata", b"garbage")
    with pytest.raises(CheckpointError, match=r"cp/metadata is damaged"):
        read(f"{root}/cp")


def test_a_file_is_replaced_at_once(root: str) -> None:
    replace_while_read(root)


def test_spark_lets_several_writers_commit_one_batch(spark: SparkSession, root: str) -> None:
    """What Spark does for each file of its logs. So nothing but the gate and the owner keeps a second writer away."""
    most = 0
    for number in range(50):
        most = max(most, len(commit_at_once(spark, f"{root}/cp/commits/{number}")))
        if most > 1:
            return
    raise AssertionError("not once in 50 batches did two writers commit")

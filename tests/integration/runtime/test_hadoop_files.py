"""Checkpoints on a real HDFS: a NameNode, a DataNode and real queries."""

from __future__ import annotations

import inspect
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.checkpoint import (
    boundary,
    check_location,
    claim,
    clone_logs,
    clone_state,
    locate,
    pinned_conf,
    read,
    recent,
    rehearsal_folder,
    rehearsal_folders,
    scratch,
)
from airflow_stream_provider.checkpoint.files import RemotePath
from airflow_stream_provider.checkpoint.location import Storage, files_of, reach
from airflow_stream_provider.checkpoint.owner import Owner, owner
from airflow_stream_provider.lifecycle.errors import CheckpointError, SpecError
from airflow_stream_provider.runtime import hadoop_files, jvm, places, writer_spec
from airflow_stream_provider.runtime.boundary import stop_at_boundary
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.hadoop_files import HadoopFiles
from airflow_stream_provider.runtime.ownership import Ownership
from airflow_stream_provider.runtime.places import open_owners
from airflow_stream_provider.runtime.refused import SETTING, SWALLOWS, check_file_manager
from airflow_stream_provider.runtime.writer_spec import writer_of_query
from devstack.drivers import wait_for
from devstack.hdfs import Hdfs
from tests.support.at_once import claim_at_once, commit_at_once, replace_while_read
from tests.support.real_storage import real_namenode
from tests.support.remote_query import RemoteQuery

INCARNATION = "orders-1.0000000a"


@pytest.fixture
def reached(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # On a machine that does other things, too.
    monkeypatch.setattr(hadoop_files, "SECONDS", 120.0)
    monkeypatch.setattr(hadoop_files, "CONNECT_SECONDS", 120.0)
    reach(places.storage())
    yield
    reach(None)


@pytest.fixture(params=["devstack's HDFS", "a real HDFS"])
def root(request: pytest.FixtureRequest, reached: None) -> Iterator[str]:
    """A folder on HDFS, which is removed again."""
    if request.param == "a real HDFS":
        real = real_namenode()
        url = f"{real.url}{real.folder}-"
    else:
        url = f"{request.getfixturevalue('hdfs').url}/"
    made: Any = locate(f"{url}{uuid.uuid4()}")
    yield str(made)
    made.files.remove(made)


@pytest.fixture
def hdfs_of(root: str) -> str:
    """The URL of that HDFS."""
    place = locate(root)
    assert isinstance(place, RemotePath)
    return place.root


@pytest.fixture
def live(spark: SparkSession, root: str) -> Iterator[RemoteQuery]:
    query = RemoteQuery(spark, f"{root}/live")
    yield query
    query.stop()


def test_a_running_query_is_read_cloned_rehearsed_and_stopped(live: RemoteQuery, root: str) -> None:
    live.run()
    before = boundary(live.checkpoint)
    live.await_batches(2)
    assert (boundary(live.checkpoint).commit or 0) > (before.commit or 0)
    found = read(live.checkpoint)
    assert found.id == live.query.id
    assert [operator.name for operator in found.operators] == ["stateStoreSave"]
    assert found.commits[-1][0] == found.last_commit
    assert found.commits[0][1] <= found.commits[-1][1]
    assert [offsets for _, offsets in recent(found, 3)] == [{}] * 3  # its source is not Kafka
    assert pinned_conf(live.checkpoint)["spark.sql.shuffle.partitions"] == "2"

    folder = rehearsal_folder(live.checkpoint, INCARNATION)
    made = clone_logs(live.checkpoint, folder / "plan", str(uuid.uuid4()))
    assert live.rehearse(made.path, 0) == []  # planned, with a sink that refuses
    assert boundary(made.path).offsets == made.next_batch
    made = clone_state(live.checkpoint, folder / "warm", str(uuid.uuid4()), 10**9, drop_last_commit=True)
    seen = live.rehearse(made.path, 2)
    assert [number for number, _ in seen] == [made.next_batch, made.next_batch + 1]
    assert all(rows == last + 1 for _, (rows, last) in seen), "every row is in the state, and once"
    scratch(live.checkpoint, folder / "scratch", str(uuid.uuid4()))

    assert rehearsal_folders(live.checkpoint) == {INCARNATION: folder}
    assert permission(folder) == "rwx------"
    live.await_no_clones(folder)
    live.await_batches(1)
    end = stop_at_boundary(live.query, 120.0)
    assert (end.completed, end.batch) == (True, boundary(live.checkpoint).commit)


def permission(folder: Any) -> str:
    path = jvm.jvm().org.apache.hadoop.fs.Path(str(folder))
    return str(folder.files._system.getFileStatus(path).getPermission().toString())


def put(root: str, **files: str) -> Any:
    place = locate(f"{root}/cp")
    for name, text in files.items():
        files_of(place).write(place / name.replace("__", "/"), text.encode())
    return place


def test_damaged_and_purged_files_are_told_apart(root: str) -> None:
    put(root, metadata='{"id":"x"}', offsets__0="v1\n{}\n-", commits__0="v1\n{}", commits__1="v1\n{}")
    assert read(f"{root}/cp").last_commit == 1
    put(root, offsets__1="garbage")
    with pytest.raises(CheckpointError, match=r"offsets/1 is damaged"):
        read(f"{root}/cp")
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        read(f"{root}/nowhere")
    with pytest.raises(FileNotFoundError):
        files_of(locate(f"{root}/cp")).read(locate(f"{root}/cp/offsets/2"))
    assert boundary(f"{root}/nowhere").commit is None
    put(root, other__commits="a file where a folder belongs")
    with pytest.raises(CheckpointError, match="cannot be read: it is a file"):
        boundary(f"{root}/cp/other")
    with pytest.raises(CheckpointError, match="is a file"):
        check_location(f"{root}/cp/metadata")


def test_a_folder_of_a_hundred_files_is_listed_whole(root: str) -> None:
    """As the logs of a checkpoint are: more text than py4j passes at once."""
    names = {f"{number}-{'ü' * 40}" for number in range(100)}
    place = put(root, **dict.fromkeys(names, ""))
    assert set(place.files.names(place)) == names
    facts = place.files.facts([place / name for name in sorted(names)])
    assert [found.size for found in facts if found] == [0] * 100


def test_a_path_without_a_scheme_is_on_the_default_file_system(root: str, hdfs_of: str) -> None:
    put(root, metadata='{"id":"x"}', offsets__0="v1\n{}\n-", commits__0="v1\n{}")
    reach(Storage(lambda: hdfs_of, places.storage().open))
    assert read(f"{root.removeprefix(hdfs_of)}/cp").path == f"{root}/cp"


def test_of_ten_streams_one_owns_a_checkpoint(root: str, tmp_path: Path) -> None:
    control = (tmp_path / "control").as_uri()
    won = claim_at_once(control, f"{root}/cp")
    assert len(won) == 1
    assert Ownership(won[0], control, open_owners(control)).check(f"{root}/cp")


def test_a_file_is_replaced_at_once(root: str) -> None:
    replace_while_read(root)


def test_a_file_whose_blocks_are_gone_since_it_was_replaced_is_read_again(root: str) -> None:
    """HDFS removes them seconds later; the one who has opened it before is told that its list of blocks has changed."""
    file: Any = locate(f"{root}/offsets/7")
    file.files.write(file, b"old")
    tries = []

    def replace_after_it_is_opened(system: Any) -> bytes:
        tries.append(1)
        if len(tries) > 1:
            return bytes(file.files.read(file))
        open_ones = [system.open(hadoop_files._path(file)) for _ in range(60)]
        file.files.replace(file, b"new")
        for stream in open_ones:
            time.sleep(1)
            stream.read()
        raise AssertionError("the blocks are still there")

    assert file.files._do(file, replace_after_it_is_opened, 90.0) == b"new"


def test_spark_lets_one_writer_commit_a_batch(spark: SparkSession, root: str) -> None:
    """Other than on S3A (`test_server_side_copy.py`)."""
    for number in range(3):
        assert len(commit_at_once(spark, f"{root}/cp/commits/{number}")) == 1


def test_an_owner_who_dies_while_he_claims_leaves_no_owner_file_without_a_name(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDFS shows a file, empty, from its creation on."""
    place: Any = locate(f"{root}/cp")
    do = HadoopFiles._do

    class Dying:
        def __init__(self, system: Any) -> None:
            self._system = system

        def create(self, *args: Any) -> Any:
            self._system.create(*args)
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(HadoopFiles, "_do", lambda self, at, call: do(self, at, lambda system: call(Dying(system))))
        with pytest.raises(KeyboardInterrupt):
            place.files.write(place.with_name("cp.owner"), b"{}")
    claim(place, "orders", "file:///control")
    assert owner(place) == Owner("orders", "file:///control")
    with pytest.raises(FileExistsError):
        place.files.write(place.with_name("cp.owner"), b"another")
    assert owner(place) == Owner("orders", "file:///control")


def test_a_file_system_that_the_script_has_closed_is_opened_again(root: str, spark: SparkSession) -> None:
    place = put(root, metadata='{"id":"x"}', offsets__0="v1\n{}\n-")
    assert boundary(f"{root}/cp").offsets == 0
    place.files._system.close()  # Hadoop gives the same one to all
    assert boundary(f"{root}/cp").offsets == 0


def test_a_user_without_rights_is_told_so(root: str, hdfs_of: str) -> None:
    put(root, metadata='{"id":"x"}', offsets__0="v1\n{}\n-")

    def as_nobody(url: str) -> Any:
        machine = jvm.jvm()
        conf = machine.org.apache.hadoop.conf.Configuration()
        return machine.org.apache.hadoop.fs.FileSystem.get(machine.java.net.URI(url), conf, "nobody")

    owned = locate(f"{root}/cp")
    assert isinstance(owned, RemotePath)
    assert isinstance(owned.files, HadoopFiles)
    path = jvm.jvm().org.apache.hadoop.fs.Path(str(owned))
    # The folder around it, which was made with it, has the rights of the one that it is in.
    for folder, mode in ((path, "700"), (path.getParent(), "755")):
        rights = jvm.jvm().org.apache.hadoop.fs.permission.FsPermission(mode)
        owned.files._system.setPermission(folder, rights)
    mine = RemotePath(hdfs_of, PurePosixPath(str(owned).removeprefix(hdfs_of)), HadoopFiles(hdfs_of, as_nobody))
    with pytest.raises(
        CheckpointError, match=r"cannot be read: AccessControlException: Permission denied: user=nobody"
    ):
        boundary(mine)
    with pytest.raises(
        CheckpointError, match=r"is not writable: AccessControlException: Permission denied: user=nobody"
    ):
        check_location(mine)


def test_a_namenode_that_hangs_or_is_away_is_an_error_in_time(
    reached: None, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"{hdfs.url}/{uuid.uuid4()}"
    put(root, metadata='{"id":"x"}', offsets__0="v1\n{}\n-")
    assert boundary(f"{root}/cp").offsets == 0
    assert hdfs.process is not None
    monkeypatch.setattr(hadoop_files, "SECONDS", 2.0)
    hdfs.process.signal(signal.SIGSTOP)
    try:
        with pytest.raises(CheckpointError, match="its storage has not answered for 2 s"):
            boundary(f"{root}/cp")
        with pytest.raises(CheckpointError, match="has not answered an earlier question yet"):
            read(f"{root}/cp")
    finally:
        hdfs.process.signal(signal.SIGCONT)
    monkeypatch.setattr(hadoop_files, "SECONDS", 120.0)

    def answers() -> bool:
        try:
            return boundary(f"{root}/cp").offsets == 0
        except CheckpointError:
            return False

    wait_for("the NameNode to answer again", answers)
    hdfs.stop()
    with pytest.raises(CheckpointError, match=r"cannot be read: .*Exception"):
        boundary(f"{root}/cp")
    hdfs.start()
    wait_for("the files after a restart", answers)


@pytest.mark.parametrize("where", ["the session", "Hadoop's own conf, as from core-site.xml"])
def test_the_manager_that_swallows_failed_writes_is_refused_wherever_it_is_set(spark: SparkSession, where: str) -> None:
    session: Any = spark
    conf = session.conf if where == "the session" else session._jsc.hadoopConfiguration()
    writer = spark.readStream.format("rate").load().writeStream
    check_file_manager(writer)
    conf.set(SETTING, "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager")
    try:
        check_file_manager(writer)
        conf.set(SETTING, f"org.apache.spark.internal.io.cloud.{SWALLOWS}")
        with pytest.raises(SpecError, match=f"cannot run with {SWALLOWS}"):
            check_file_manager(writer)
    finally:
        conf.unset(SETTING)


def test_the_manager_that_is_set_after_the_scripts_start_is_refused_when_the_query_begins(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = spark
    for name, method in list(vars(DataStreamWriter).items()):
        if inspect.isfunction(method):
            monkeypatch.setattr(DataStreamWriter, name, method)  # put back after this test
    writer_spec.install(lambda: None)  # as the launcher does before the script runs
    writer = spark.readStream.format("rate").load().writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path / "cp"))
    query = Gate()._register(*writer_of_query(writer, "start", DataStreamWriter.start, (), {}))
    session.conf.set(SETTING, f"org.apache.spark.internal.io.cloud.{SWALLOWS}")
    try:
        with pytest.raises(SpecError, match=f"cannot run with {SWALLOWS}"):
            query.start_real()
    finally:
        session.conf.unset(SETTING)
    assert not (tmp_path / "cp").exists()

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import boundary, pinned_conf, read, recent
from airflow_stream_provider.checkpoint.read import StatefulOperator
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return trees.new(tmp_path / "checkpoint")


def test_all_fields_of_a_checkpoint_with_committed_batches(root: Path) -> None:
    trees.plan(root, 41, trees.kafka(orders={0: 10, 1: 20}), trees.kafka(prices={0: 5}))
    trees.commit(root, 41, at=1000.0)
    trees.plan(root, 42, trees.kafka(orders={0: 57, 1: 43}), trees.kafka(prices={0: 6}))
    trees.commit(root, 42, at=1001.5)
    trees.operator(root, 0, "stateStoreSave", 2)
    trees.operator(root, 1, "symmetricHashJoin", 8, "left-keyToNumValues", "right-keyToNumValues")
    found = read(root)
    assert found.id == trees.QUERY
    assert found.committed == {"orders": {0: 57, 1: 43}, "prices": {0: 6}}
    assert found.planned is None
    assert found.last_commit == 42
    assert found.commits == ((41, 1000.0), (42, 1001.5))
    assert found.operators == (StatefulOperator(0, "stateStoreSave", 2), StatefulOperator(1, "symmetricHashJoin", 8))
    assert found.conf == trees.CONF
    assert [source.name for source in found.sources] == ["0", "1"]
    assert found.sources[1].committed == '{"prices":{"0":6}}'


def test_a_planned_batch_is_not_committed(root: Path) -> None:
    """Measured: a failed query had planned a batch without a deleted topic; only the commit tells what was read."""
    trees.plan(root, 3, trees.kafka(orders={0: 10}, gone={0: 7}))
    trees.commit(root, 3)
    trees.plan(root, 4, trees.kafka(orders={0: 12}))
    found = read(root)
    assert found.committed == {"orders": {0: 10}, "gone": {0: 7}}
    assert found.planned == {"orders": {0: 12}}
    assert found.last_commit == 3
    assert found.sources[0].planned == '{"orders":{"0":12}}'


def test_before_the_first_commit_the_starting_offsets_count(root: Path) -> None:
    trees.start(root, "0", trees.kafka(orders={0: 3, 1: 4}))
    assert read(root).committed == {"orders": {0: 3, 1: 4}}
    assert read(root).planned is None
    trees.plan(root, 0, trees.kafka(orders={0: 9, 1: 9}))
    assert read(root).committed == {"orders": {0: 3, 1: 4}}
    assert read(root).planned == {"orders": {0: 9, 1: 9}}


def test_batch_numbers_may_have_gaps_with_asynchronous_progress(root: Path) -> None:
    for batch, offset in ((0, 1), (2, 3), (5, 6)):
        trees.plan(root, batch, trees.kafka(orders={0: offset}))
    trees.commit(root, 0)
    trees.commit(root, 2)
    trees.commit(root, 4)  # its offsets were never written
    found = read(root)
    assert found.committed == {"orders": {0: 3}}
    assert found.planned == {"orders": {0: 6}}
    assert found.last_commit == 4


def test_format_2_names_its_sources_in_any_order(root: Path) -> None:
    trees.plan_v2(root, 7, prices=trees.kafka(prices={0: 6}), orders=trees.kafka(orders={0: 57}), idle="-")
    trees.commit(root, 7, version=3)
    found = read(root)
    assert found.committed == {"orders": {0: 57}, "prices": {0: 6}}
    assert {source.name: source.committed for source in found.sources}["idle"] is None


@pytest.mark.parametrize("offset", ["-", "19", '{"logOffset":0}', '{"shard":{"0":"abc"}}', '{"a":{"0":true}}', "[1]"])
def test_other_sources_are_kept_as_they_are(root: Path, offset: str) -> None:
    trees.plan(root, 0, offset, trees.kafka(orders={0: 1}))
    trees.commit(root, 0)
    found = read(root)
    assert found.committed == {"orders": {0: 1}}
    assert found.sources[0].topics is None
    assert found.sources[0].committed == (None if offset == "-" else offset)


def test_of_two_sources_on_one_partition_the_smaller_offset_counts(root: Path) -> None:
    trees.plan(root, 0, trees.kafka(orders={0: 9, 1: 4}), trees.kafka(orders={0: 7, 1: 6, 2: 1}))
    trees.commit(root, 0)
    assert read(root).committed == {"orders": {0: 7, 1: 4, 2: 1}}


def test_the_last_commits_with_their_times(root: Path) -> None:
    for batch in range(5):
        trees.plan(root, batch, trees.kafka(a={0: batch}), "-", trees.kafka(b={0: 10 * batch}))
        trees.commit(root, batch, at=1000.0 + batch)
    trees.plan(root, 5, trees.kafka(a={0: 5}))  # planned only
    trees.commit(root, 6)  # asynchronous progress: its offsets were never written
    found = read(root)
    (root / "offsets" / "2").unlink()  # purged in between
    assert recent(found, 3) == tuple((1000.0 + n, {"a": {0: n}, "b": {0: 10 * n}}) for n in (1, 3, 4))
    assert [at for at, _ in recent(found, 10)] == [1000.0, 1001.0, 1003.0, 1004.0]
    assert recent(read(trees.new(root.with_name("new"))), 10) == ()


def test_a_damaged_file_among_the_last_commits_is_named(root: Path) -> None:
    for batch in range(2):
        trees.plan(root, batch, trees.kafka(a={0: batch}))
        trees.commit(root, batch)
    trees.put(root / "offsets" / "0", "")
    with pytest.raises(CheckpointError, match="damaged"):
        recent(read(root), 10)


def test_only_integer_names_are_batches(root: Path) -> None:
    trees.plan(root, 9, "-")
    trees.commit(root, 9)
    for name in (".10.crc", ".10.1a2b.tmp", "10.tmp", "9.compact", "x", "-1", "٣"):
        trees.put(root / "offsets" / name, "", checked=False)
        trees.put(root / "commits" / name, "", checked=False)
    assert read(root).last_commit == 9
    assert read(root).planned is None
    assert boundary(root).completed


def test_spark_35_writes_no_operator_metadata(root: Path) -> None:
    for partition in range(3):
        trees.put(root / "state" / "0" / str(partition) / "1.delta", "x")
    assert read(root).operators == (StatefulOperator(0, "", 3),)


def test_transform_with_state_keeps_its_metadata_by_batch(root: Path) -> None:
    for batch in (0, 12):
        value = f'v2\n{{"operatorInfo":{{"operatorName":"tws{batch}"}},"stateStoreInfo":[{{"numPartitions":4}}]}}'
        trees.put(root / "state" / "0" / "_metadata" / "v2" / str(batch), value)
    assert read(root).operators == (StatefulOperator(0, "tws12", 4),)


def test_a_file_url_is_the_same_folder(root: Path) -> None:
    assert read(f"file:{root}") == read(f"file://{root}") == read(str(root))


DAMAGED = {
    "offsets/1": ["", "\0\0\0\0", "{}", "v1\nnot json\n1", "v1\n[1]\n1", 'v1\n{"conf": 1}\n1', "vx\n{}"],
    "commits/1": ["", "\0\0", "{}"],
    "metadata": ["", "{}", "[]", '{"name": 1}'],
    "state/0/_metadata/metadata": ["", "v1\n{}", 'v1\n{"operatorInfo": {"operatorName": "x"}, "stateStoreInfo": []}'],
}


@pytest.mark.parametrize(("name", "content"), [(name, text) for name, texts in DAMAGED.items() for text in texts])
def test_a_damaged_file_is_named(root: Path, name: str, content: str) -> None:
    trees.plan(root, 1, "1")
    trees.commit(root, 1)
    trees.operator(root, 0, "stateStoreSave", 2)
    trees.put(root / name, content)
    with pytest.raises(CheckpointError, match="damaged") as caught:
        read(root)
    assert str(root / name) in str(caught.value)
    assert caught.value.next_step


def test_a_file_that_is_not_text_is_damaged(root: Path) -> None:
    trees.put(root / "offsets" / "0", b"v1\n\xff\xfe")
    with pytest.raises(CheckpointError, match="not text"):
        read(root)
    trees.put(root / "offsets" / "0", "v1\n{}\n1")
    trees.put(root / "state" / "0" / "_metadata" / "metadata", b"v1\n\xff\xfe")
    with pytest.raises(CheckpointError, match="not text"):
        read(root)


def test_newer_formats_are_refused_by_name(root: Path) -> None:
    trees.put(root / "offsets" / "0", "v3\n{}\n1")
    with pytest.raises(CheckpointError, match="format v3, but only formats up to v2"):
        read(root)


def test_a_missing_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        read(tmp_path / "nowhere")


def test_an_invalid_path_is_a_checkpoint_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="File name too long"):
        read(tmp_path / ("x" * 300))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_without_access_is_an_error(root: Path) -> None:
    trees.plan(root, 0, "1").parent.chmod(0)
    try:
        with pytest.raises(CheckpointError, match="cannot be read"):
            read(root)
    finally:
        (root / "offsets").chmod(0o700)


def test_reading_goes_on_while_a_query_writes_and_purges(root: Path) -> None:
    def batch(number: int) -> None:
        trees.plan(root, number, trees.kafka(orders={0: number}))
        trees.commit(root, number)
        for folder in ("offsets", "commits"):
            (root / folder / str(number - 20)).unlink(missing_ok=True)

    batch(0)
    over = threading.Event()

    def write() -> None:
        number = 1
        while not over.is_set():
            batch(number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [0]
        while len(seen) <= 80 or seen[-1] == 0:
            assert writer.is_alive()
            found = read(root)
            assert found.committed == {"orders": {0: found.last_commit}}
            assert found.last_commit is not None
            assert found.last_commit >= seen[-1]
            seen.append(found.last_commit)
    finally:
        over.set()
        writer.join()


def test_a_last_commit_in_a_newer_format_is_refused(root: Path) -> None:
    trees.plan(root, 0, "-")
    trees.commit(root, 0, version=4)
    with pytest.raises(CheckpointError, match="format v4, but only formats up to v3"):
        read(root)


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_restart_keeps_is_the_conf_of_the_last_batch_and_the_format_of_its_state(
    root: Path, version: int
) -> None:
    assert pinned_conf(root) == {}
    trees.plan(root, 0, trees.kafka(orders={0: 10}), conf={"spark.sql.shuffle.partitions": "2"})
    assert pinned_conf(root) == {"spark.sql.shuffle.partitions": "2"}
    trees.commit(root, 0, version=version)
    assert pinned_conf(root) == {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": str(version),
    }

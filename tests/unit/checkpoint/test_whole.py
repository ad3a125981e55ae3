"""Whether a driver that starts on a checkpoint finds all that Spark reads then."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.clone import clone_logs
from airflow_stream_provider.checkpoint.logs import LogEnds
from airflow_stream_provider.checkpoint.whole import check_whole
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees

OFFSETS = trees.kafka(orders={0: 57, 1: 43})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Batches 4 to 7 are planned, the last one is not committed; an aggregate has three partitions."""
    found = trees.new(tmp_path / "checkpoint")
    for batch in (4, 5, 6, 7):
        trees.plan(found, batch, OFFSETS)
    for batch in (4, 5, 6):
        trees.commit(found, batch)
    trees.operator(found, 0, "stateStoreSave", 3)
    for partition in "012":
        for name in ("5.snapshot", "6.delta", "7.delta", "8.delta"):
            trees.put(found / "state" / "0" / partition / name, "state")
    return found


def test_a_whole_checkpoint(root: Path) -> None:
    assert check_whole(root) == LogEnds(7, 6)
    trees.commit(root, 7)
    assert check_whole(root) == LogEnds(7, 7)
    shutil.rmtree(root / "commits")
    for batch in (5, 6, 7):
        (root / "offsets" / str(batch)).unlink()
    (root / "offsets" / "4").rename(root / "offsets" / "0")
    assert check_whole(root) == LogEnds(0, None), "its first batch is under way"


def test_a_checkpoint_without_a_batch_is_whole(tmp_path: Path) -> None:
    assert check_whole(tmp_path / "none") == LogEnds(None, None)
    assert check_whole(trees.new(tmp_path / "new")) == LogEnds(None, None)


@pytest.mark.parametrize(
    ("offsets", "commits"),
    [
        pytest.param((4, 5, 7), (4, 5), id="the newest is planned only"),
        pytest.param((4, 5, 7), (4, 5, 7), id="at a batch boundary"),
        pytest.param((4, 5, 7), (4, 5, 6, 7), id="its commit is there"),
    ],
)
def test_spark_reads_the_batch_before_the_newest_one_whatever_the_commits_say(
    tmp_path: Path, offsets: tuple[int, ...], commits: tuple[int, ...]
) -> None:
    # SPARK-38033: Spark says "batch 6 doesn't exist" and refuses to start.
    root = trees.new(tmp_path / "checkpoint")
    for batch in offsets:
        trees.plan(root, batch, OFFSETS)
    for batch in commits:
        trees.commit(root, batch)

    with pytest.raises(CheckpointError, match="offsets/7 is there, and offsets/6, which Spark reads with it, is miss"):
        check_whole(root)
    # Not from an earlier batch either: a rehearsal on such a clone would pass.
    for drop in (True, False):
        with pytest.raises(CheckpointError, match="offsets/6 does not exist"):
            clone_logs(root, tmp_path / f"clone-{drop}", "an-id", drop_last_commit=drop)


def unlink(*names: str) -> Callable[[Path], object]:
    def act(root: Path) -> None:
        for name in names:
            (root / name).unlink()

    return act


def edit(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text((root / name).read_text().replace(" ", "  "))


def cut(name: str) -> Callable[[Path], object]:
    def act(root: Path) -> None:
        with open(root / name, "r+b") as file:
            file.truncate(0)

    return act


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the id of the query": (unlink("metadata"), "its file metadata, which has the id of the query, is missing"),
    "the newest batch but one": (
        unlink("offsets/4", "offsets/5", "offsets/6"),
        "offsets/7 is there, and offsets/6, which Spark reads with it, is missing",
    ),
    "the offsets of the last commit": (unlink("offsets/6"), "offsets/7 is there, and offsets/6,"),
    "commits ahead of offsets": (unlink("offsets/6", "offsets/7"), "batch 6 is in commits/, and offsets/ ends at 5"),
    "all commits": (unlink("commits/4", "commits/5", "commits/6"), "offsets/ has batch 7, and commits/ is empty"),
    "the last two commits": (unlink("commits/5", "commits/6"), "only 4 in commits/: those between would be lost"),
    "the state of the last commit": (unlink("state/0/1/7.delta"), "state/0/1/7.* is missing"),
    "the base of the state": (unlink("state/0/0/5.snapshot"), "is missing"),
    "a partition": (
        lambda root: shutil.rmtree(root / "state" / "0" / "1"),
        "state/0/1 has no state of stateStoreSave of the last commit, 6",
    ),
    "an edited log": (edit("offsets/7"), "offsets/7: it has other contents than its hidden checksum file says"),
    "an edited commit": (lambda root: (root / "commits" / "6").write_text('v1\n{"a":1}'), "other contents"),
    "a torn checksum file": (cut("offsets/.7.crc"), "its hidden checksum file .7.crc is damaged"),
    "state that was cut off": (cut("state/0/0/7.delta"), "has 0 bytes, and checksums of another length"),
    "a damaged log": (lambda root: trees.put(root / "offsets" / "7", "v1\nnonsense\n"), "not JSON"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing_or_damaged_is_named(root: Path, name: str) -> None:
    act, said = CASES[name]
    act(root)
    with pytest.raises(CheckpointError, match=said):
        check_whole(root)


def test_an_aggregate_over_everything_has_one_partition_however_many_are_noted(root: Path) -> None:
    for partition in "12":
        shutil.rmtree(root / "state" / "0" / partition)
    assert check_whole(root) == LogEnds(7, 6)


def test_what_is_not_needed_any_more_may_be_missing_and_what_has_no_checksum_is_taken_as_it_is(root: Path) -> None:
    unlink("offsets/4", "commits/4", "state/0/0/8.delta", "offsets/.7.crc", "state/0/0/.7.delta.crc")(root)
    trees.put(root / "offsets" / "7", (root / "offsets" / "7").read_text(), checked=False)
    (root / "state" / "0" / "0" / "7.delta").write_text("longer than it was")
    assert check_whole(root) == LogEnds(7, 6)


def test_a_query_that_goes_on_meanwhile_is_waited_for(root: Path) -> None:
    done = threading.Event()

    def go_on() -> None:
        for batch in range(8, 100):
            trees.commit(root, batch - 1)
            trees.plan(root, batch, OFFSETS)
            for partition in "012":
                trees.put(root / "state" / "0" / partition / f"{batch + 1}.snapshot", "state")
                (root / "state" / "0" / partition / f"{batch - 19}.snapshot").unlink(missing_ok=True)
            (root / "offsets" / str(batch - 20)).unlink(missing_ok=True)
            (root / "commits" / str(batch - 20)).unlink(missing_ok=True)
        done.set()

    thread = threading.Thread(target=go_on)
    thread.start()
    looks = 0
    while not done.is_set():
        check_whole(root)
        looks += 1
    thread.join()
    assert looks

"""A query that reads records again: which files change, in which order, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import rewind as module
from airflow_stream_provider.checkpoint.files import RemotePath
from airflow_stream_provider.checkpoint.logs import LogEnds, boundary, kafka_offsets, read_offsets
from airflow_stream_provider.checkpoint.read import pinned_conf, read, recent
from airflow_stream_provider.checkpoint.rewind import apply_rewind, check_rewindable, plan_rewind
from airflow_stream_provider.checkpoint.whole import check_whole
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees

MARK = "orders-2"
BACK = {"orders": {0: 20, 1: 35}}


def batch(number: int) -> str:
    return trees.kafka(orders={0: 10 * number, 1: 10 * number + 5})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Batches 0 to 4 are committed; the last one ends at offsets 40 and 45."""
    found = trees.new(tmp_path / "checkpoint")
    for number in range(5):
        trees.plan(found, number, batch(number))
        trees.commit(found, number, at=100.0 + number)
    return found


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def offsets(root: Path, number: int) -> list[object]:
    return [kafka_offsets(text) for text in read_offsets(root / "offsets" / str(number)).sources.values()]


def test_the_last_batch_ends_earlier_and_the_one_before_it_at_the_same_place(root: Path) -> None:
    before = contents(root)
    plan = plan_rewind(root, BACK, MARK, 4)
    assert (plan.batch, plan.records) == (4, 30)
    assert contents(root) == before, "a plan changes nothing"
    apply_rewind(plan)
    assert offsets(root, 4) == offsets(root, 3) == [BACK]
    assert boundary(root) == check_whole(root) == LogEnds(4, 4), "no batch is removed or added, and all checks agree"
    changed = {name for name, data in contents(root).items() if before.get(name) != data}
    gone = before.keys() - contents(root).keys()
    assert changed == {"offsets/3", "offsets/4"}
    assert gone == {"offsets/.3.crc", "offsets/.4.crc"}, "Spark reads a file without its checksums"
    metadata = json.loads((root / "offsets" / "4").read_text().split("\n")[1])
    assert metadata == {
        "batchWatermarkMs": 0,
        "batchTimestampMs": 1795228673093,
        "conf": {**trees.CONF, "spark.airflow.stream.rewound": MARK},
    }
    assert pinned_conf(root)["spark.sql.shuffle.partitions"] == "2"
    assert "spark.airflow.stream.rewound" not in pinned_conf(root), "it is no setting of the query's"


def test_it_may_be_done_again_and_then_changes_nothing(root: Path) -> None:
    plan = plan_rewind(root, BACK, MARK, 4)
    apply_rewind(plan)
    once = contents(root)
    apply_rewind(plan)
    assert contents(root) == once
    assert plan_rewind(root, BACK, MARK, 4) == module.Rewind(4, 0, ())


def test_it_is_done_once_whoever_looks_again(root: Path) -> None:
    """Such as the driver after one that was killed: it goes on from where that one came to."""
    apply_rewind(plan_rewind(root, BACK, MARK, 4))
    trees.plan(root, 5, batch(3))
    assert plan_rewind(root, BACK, MARK, 4).files == (), "a batch is under way"
    for number in (5, 6):
        trees.plan(root, number, batch(number - 2))
        trees.commit(root, number)
    assert plan_rewind(root, BACK, MARK, 4).files == (), "batches were run since"
    assert plan_rewind(root, BACK, "orders-3", 6).records == 30, "another one goes back from there"
    for number in range(5):
        (root / "offsets" / str(number)).unlink()
        (root / "commits" / str(number)).unlink()
    assert plan_rewind(root, BACK, MARK, 4).files == (), "and Spark has removed the old ones"


def test_it_is_not_done_behind_batches_that_were_run_without_it(root: Path) -> None:
    for number in (5, 6):
        trees.plan(root, number, batch(number))
        trees.commit(root, number)
    before = contents(root)
    with pytest.raises(CheckpointError, match="batches were run after batch 4 without it"):
        plan_rewind(root, BACK, MARK, 4)
    with pytest.raises(CheckpointError, match="it ends before batch 7, as an older copy does"):
        plan_rewind(root, BACK, MARK, 7)
    assert contents(root) == before


def test_a_partition_is_never_moved_forward_and_others_stay(root: Path) -> None:
    plan = plan_rewind(root, {"orders": {0: 20, 1: 45}, "others": {0: 1}}, MARK, 4)
    assert plan.records == 20
    apply_rewind(plan)
    assert offsets(root, 4) == [{"orders": {0: 20, 1: 45}}]
    assert plan_rewind(root, {"orders": {0: 21, 1: 4000, 7: 3}}, "another", 4).files == (), "that would skip records"


def test_every_source_that_reads_a_partition_goes_back(root: Path) -> None:
    for number in (5, 6):
        trees.plan(root, number, trees.kafka(orders={0: 60}), trees.kafka(orders={0: 55}, returns={0: 9}))
        trees.commit(root, number)
    plan = plan_rewind(root, {"orders": {0: 57}, "returns": {0: 2}}, MARK, 6)
    assert plan.records == 3 + 7
    apply_rewind(plan)
    assert offsets(root, 6) == [{"orders": {0: 57}}, {"orders": {0: 55}, "returns": {0: 2}}]


def test_sources_with_names(root: Path) -> None:
    for number in (5, 6):
        trees.plan_v2(root, number, orders=trees.kafka(orders={0: 60}))
        trees.commit(root, number, version=3)
    apply_rewind(plan_rewind(root, BACK, MARK, 6))
    assert (root / "offsets" / "6").read_text().split("\n")[2:] == ['orders:{"orders":{"0":20}}']
    check_whole(root)


@pytest.mark.parametrize("written", [0, 1])
def test_a_driver_that_dies_in_between_leaves_the_query_where_it_was(
    root: Path, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query begins where the last offsets file says; that one is replaced last, and at once."""
    replaced: list[object] = []
    replace = os.replace

    def dies(new: Path, old: Path) -> None:
        if len(replaced) == written:
            raise KeyboardInterrupt
        replaced.append(old)
        replace(new, old)

    monkeypatch.setattr(os, "replace", dies)
    plan = plan_rewind(root, BACK, MARK, 4)
    with pytest.raises(KeyboardInterrupt):
        apply_rewind(plan)
    assert offsets(root, 4) == [kafka_offsets(batch(4))]
    assert check_whole(root) == LogEnds(4, 4)
    monkeypatch.setattr(os, "replace", replace)
    apply_rewind(plan_rewind(root, BACK, MARK, 4))
    assert offsets(root, 4) == [BACK]
    assert check_whole(root) == LogEnds(4, 4)


def test_a_disk_that_takes_no_file_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(new: Path, old: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CheckpointError, match="cannot be replaced: No space left on device"):
        apply_rewind(plan_rewind(root, BACK, MARK, 4))
    assert [name for name in contents(root) if name.endswith(".tmp")] == []
    assert offsets(root, 4) == [kafka_offsets(batch(4))]


def plans_another(root: Path) -> None:
    trees.plan(root, 5, batch(5))


def keeps_one(root: Path) -> None:
    for number in range(4):
        (root / "offsets" / str(number)).unlink()
        (root / "commits" / str(number)).unlink()


def keeps_state(root: Path) -> None:
    trees.operator(root, 0, "stateStoreSave", 2)


def reads_files(root: Path) -> None:
    for number in (5, 6):
        trees.plan(root, number, batch(number), '{"logOffset":3}')
        trees.commit(root, number)


def has_no_offset(root: Path) -> None:
    for number in (5, 6):
        trees.plan(root, number, batch(number), "-")
        trees.commit(root, number)


def gets_a_source(root: Path) -> None:
    trees.plan(root, 5, batch(5), batch(5))
    trees.commit(root, 5)


def has_no_batch(root: Path) -> None:
    for path in [*(root / "commits").iterdir(), *(root / "offsets").iterdir()]:
        path.unlink()


@pytest.mark.parametrize(
    ("change", "why", "also_at_once"),
    [
        (plans_another, "batch 5 is not committed, and would be run again from an earlier offset", False),
        (keeps_one, "batch 4 is the only one", False),
        (gets_a_source, "batches 4 and 5 have other sources", False),
        (keeps_state, "the query keeps state, which has these records already, and would count them twice", True),
        (reads_files, "one of its sources is not Kafka, or has no offsets yet", True),
        (has_no_offset, "one of its sources is not Kafka, or has no offsets yet", True),
        (has_no_batch, "it has no committed batch yet", True),
    ],
)
def test_what_would_lose_or_mix_up_something_is_refused(
    root: Path, change: Callable[[Path], None], why: str, also_at_once: bool
) -> None:
    change(root)
    before = contents(root)
    with pytest.raises(CheckpointError, match=f"cannot be rewound: {why}"):
        plan_rewind(root, BACK, MARK, boundary(root).commit or 0)
    assert contents(root) == before
    if also_at_once:
        with pytest.raises(CheckpointError, match=why):
            check_rewindable(root, ["kafka:subscribe=orders"])
    else:
        check_rewindable(root, ["kafka:subscribe=orders"])


def test_whose_offsets_they_are_says_the_query_and_not_their_form(root: Path) -> None:
    """Event Hubs' offsets have the form of Kafka's (azure-event-hubs-spark issues 461, 578)."""
    for sources, said in (
        (["kafka:subscribe=orders", "org.apache.spark.sql.eventhubs.EventHubsSourceProvider:"], "eventhubs"),
        ([], "no source is known"),
    ):
        with pytest.raises(CheckpointError, match=rf"the query does not read Kafka alone \(.*{said}"):
            check_rewindable(root, sources)


def test_a_storage_that_replaces_no_file_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are in `tests/integration/runtime`."""
    files: Any = SimpleNamespace()
    remote = RemotePath("abfss://c@a.example", PurePosixPath("/cp"), files)
    monkeypatch.setattr(module, "locate", lambda location: remote)
    with pytest.raises(CheckpointError, match="on this storage no file can be replaced at once"):
        check_rewindable("abfss://c@a.example/cp")


def test_whoever_judges_the_pace_looks_at_the_commits_since(root: Path) -> None:
    """Else the step back would look like one that nobody wanted: Burrow calls that REWIND."""
    assert len(recent(read(root), 10)) == 5
    apply_rewind(plan_rewind(root, BACK, MARK, 4))
    for number, end in ((5, 25), (6, 45)):
        trees.plan(root, number, trees.kafka(orders={0: end, 1: end + 15}))
        trees.commit(root, number, at=100.0 + number)
    seen = recent(read(root), 10)
    assert [at for at, _ in seen] == [104.0, 105.0, 106.0]
    assert [found["orders"][0] for _, found in seen] == [20, 25, 45]


@pytest.mark.parametrize(("error", "may_land"), [(TimeoutError("10 s"), True), (PermissionError("no"), False)])
def test_what_the_storage_has_not_answered_may_land_later(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, may_land: bool
) -> None:
    plan = plan_rewind(root, BACK, MARK, 4)

    def fails(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(module, "files_of", lambda place: SimpleNamespace(replace=fails))
    with pytest.raises(CheckpointError) as said:
        apply_rewind(plan)
    assert said.value.fields["may_land"] is may_land

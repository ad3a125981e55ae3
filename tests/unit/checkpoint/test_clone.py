from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import (
    StateTooLarge,
    boundary,
    clone_logs,
    clone_state,
    read,
    rehearsal_folder,
    rehearsal_folders,
    scratch,
)
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees

LIMIT = 10**9


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A query in its batch 7: batches 4 to 6 are committed, state is kept from version 3 on."""
    root = trees.new(tmp_path / "live")
    trees.start(root, "0", trees.kafka(orders={0: 0}))
    trees.operator(root, 0, "stateStoreSave", 2)
    for batch in range(4, 8):
        trees.plan(root, batch, trees.kafka(orders={0: batch * 10}))
    for batch in range(4, 7):
        trees.commit(root, batch)
    for partition in range(2):
        for version in range(3, 9):
            trees.put(root / "state" / "0" / str(partition) / f"{version}.delta", "delta")
        trees.put(root / "state" / "0" / str(partition) / "5.snapshot", "snapshot")
        trees.put(root / "state" / "0" / str(partition) / ".8.delta.1a2b.tmp", "half", checked=False)
    return root


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "clones" / "one"


def fingerprint(root: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


DESCRIPTIONS = {"metadata", "sources/0/0", "state/0/_metadata/metadata", "state/0/0/_metadata/schema"}


def test_a_plan_needs_the_logs_and_no_state(root: Path, target: Path) -> None:
    before = fingerprint(root)
    made = clone_logs(root, target, "new-id")
    assert trees.names(target) == {*DESCRIPTIONS, "offsets/5", "offsets/6", "commits/5"}
    assert made.next_batch == 6  # the last committed batch is planned again, with what it has read
    assert read(target).id == "new-id"
    assert read(target).planned == {"orders": {0: 60}}
    assert not (target / ".metadata.crc").exists()  # that would be the old id's
    assert (target / "offsets" / ".6.crc").exists()
    assert fingerprint(root) == before


def test_the_last_commit_can_be_kept(root: Path, target: Path) -> None:
    made = clone_logs(f"file:{root}", f"file:{target}", "new-id", drop_last_commit=False)
    assert made.next_batch == 7
    assert (boundary(target).offsets, boundary(target).commit) == (6, 6)


def test_a_clone_has_the_newest_state_base_and_the_changes_after_it(root: Path, target: Path) -> None:
    before = fingerprint(root)
    made = clone_state(root, target, "new-id", LIMIT)
    state = {f"state/0/{p}/{name}" for p in range(2) for name in ("5.snapshot", "6.delta", "7.delta")}
    assert trees.names(target) == {*DESCRIPTIONS, *state, "offsets/5", "offsets/6", "commits/6"}
    assert made.next_batch == 7
    assert made.bytes == sum((target / name).stat().st_size for name in trees.names(target))
    assert fingerprint(root) == before


def test_state_from_before_the_last_commit_gives_a_batch_to_run(root: Path, target: Path) -> None:
    made = clone_state(root, target, "new-id", LIMIT, drop_last_commit=True)
    assert made.next_batch == 6
    assert {name for name in trees.names(target) if "state/0/1/" in name} == {
        "state/0/1/5.snapshot",
        "state/0/1/6.delta",
    }
    assert not boundary(target).completed


def test_without_a_snapshot_every_change_is_needed(root: Path, target: Path) -> None:
    for partition in range(2):
        (root / "state" / "0" / str(partition) / "5.snapshot").unlink()
    with pytest.raises(CheckpointError, match=r"cannot be cloned: .*/state/0/./[12]\.\* does not exist"):
        clone_state(root, target, "new-id", LIMIT)
    assert list(target.iterdir()) == []
    for partition in range(2):
        for version in (1, 2):
            trees.put(root / "state" / "0" / str(partition) / f"{version}.delta", "delta")
    clone_state(root, target, "new-id", LIMIT)
    assert {f"state/0/1/{version}.delta" for version in range(1, 8)} <= trees.names(target)


def test_rocksdb_shares_its_tables_between_snapshots(root: Path, target: Path) -> None:
    for partition in range(2):
        folder = root / "state" / "0" / str(partition)
        for path in folder.glob("*.delta"):
            path.unlink()
        (folder / "5.snapshot").unlink()
        trees.snapshot(folder, "4.zip", "000001-a.sst", "000002-b.sst")
        trees.snapshot(folder, "6.zip", "000002-b.sst", "000003-c.sst")
        trees.snapshot(folder, "8.zip", "000004-d.sst")
        for version in range(4, 9):
            trees.put(folder / f"{version}.changelog", "changes")
    clone_state(root, target, "new-id", LIMIT)
    found = {name.removeprefix("state/0/1/") for name in trees.names(target) if name.startswith("state/0/1/")}
    assert found == {"6.zip", "7.changelog", "SSTs/000002-b.sst", "SSTs/000003-c.sst"}


def test_state_files_with_unique_names_are_copied_with_their_visible_checksums(root: Path, target: Path) -> None:
    one, two = "7b1d29db-7b1a-4f2f-899a-e58c1f1dc778", "ded567e8-1811-4316-b71e-b7b167cd357b"
    folder = root / "state" / "0" / "0"
    for path in folder.glob("*.*"):
        path.unlink()
    trees.snapshot(folder, f"6_{one}.zip", "000002-b.sst")
    trees.put(folder / f"6_{one}.zip.crc", "{}")
    trees.put(folder / f"7_{two}.changelog", "changes")
    trees.put(folder / f"7_{two}.changelog.crc", "{}")
    trees.put(folder / f"5_{one}.changelog", "changes")
    expected = {
        f"6_{one}.zip",
        f"6_{one}.zip.crc",
        "SSTs/000002-b.sst",
        f"7_{two}.changelog",
        f"7_{two}.changelog.crc",
        "_metadata/schema",
    }
    clone_state(root, target, "new-id", LIMIT)
    assert trees.names(target / "state" / "0" / "0") == expected


def test_all_state_files_of_a_batch_that_ran_twice_are_copied(root: Path, tmp_path: Path, target: Path) -> None:
    one, two = "7b1d29db-7b1a-4f2f-899a-e58c1f1dc778", "ded567e8-1811-4316-b71e-b7b167cd357b"
    folder = root / "state" / "0" / "0"
    for path in folder.glob("*.*"):
        path.unlink()
    for version in range(1, 8):
        trees.put(folder / f"{version}_{one}.changelog", "changes")
    trees.put(folder / f"6_{two}.changelog", "of the first try")
    trees.snapshot(folder, f"6_{two}.zip", "000009-x.sst")  # would be the base, and is of the first try too
    clone_state(root, target, "new-id", LIMIT)
    assert {f"{version}_{one}.changelog" for version in range(1, 8)} <= trees.names(target / "state" / "0" / "0")


def test_a_damaged_snapshot_is_named(root: Path, target: Path) -> None:
    trees.put(root / "state" / "0" / "1" / "7.zip", "not a zip")
    with pytest.raises(CheckpointError, match=r"1/7\.zip is damaged"):
        clone_state(root, target, "new-id", LIMIT)


def test_state_above_the_limit_is_refused_before_it_is_copied(root: Path, target: Path) -> None:
    size = clone_state(root, target.with_name("two"), "new-id", LIMIT).bytes
    with pytest.raises(StateTooLarge) as caught:
        clone_state(root, target, "new-id", 100)
    assert caught.value.fields["limit"] == 100
    assert caught.value.fields["bytes"] == size - (target.with_name("two") / "metadata").stat().st_size
    assert list(target.iterdir()) == []


def test_a_scratch_checkpoint_starts_where_the_last_batch_started(root: Path, target: Path) -> None:
    assert scratch(root, target, "new-id").next_batch == 0
    assert trees.names(target) == {"metadata", "sources/0/0"}
    assert (target / "sources" / "0" / "0").read_bytes() == b'\0v1\n{"orders":{"0":50}}'
    assert read(target).committed == {"orders": {0: 50}}


def test_a_scratch_checkpoint_of_a_first_batch_has_the_starting_offsets_of_the_query(root: Path, target: Path) -> None:
    for batch in range(4, 8):
        (root / "offsets" / str(batch)).unlink()
    scratch(root, target, "new-id")
    assert read(target).committed == {"orders": {0: 0}}


def test_the_first_batch_can_be_cloned_while_it_runs(root: Path, target: Path) -> None:
    for batch in range(4, 8):
        (root / "offsets" / str(batch)).unlink()
        (root / "commits" / str(batch)).unlink(missing_ok=True)
    trees.plan(root, 0, trees.kafka(orders={0: 1}))
    assert clone_logs(root, target, "new-id").next_batch == 0
    made = clone_state(root, target.with_name("two"), "new-id", LIMIT)
    assert made.next_batch == 0
    assert not any(name.endswith((".delta", ".snapshot")) for name in trees.names(target.with_name("two")))


def test_a_checkpoint_without_batches_has_nothing_to_rehearse_on(tmp_path: Path, target: Path) -> None:
    with pytest.raises(CheckpointError, match="no batch yet"):
        clone_logs(trees.new(tmp_path / "fresh"), target, "new-id")


def test_a_target_in_use_is_refused(root: Path, target: Path) -> None:
    clone_logs(root, target, "new-id")
    with pytest.raises(CheckpointError, match="not empty"):
        clone_logs(root, target, "new-id")
    assert read(target).id == "new-id"
    for inside in (root, root / "clone", root.parent):
        with pytest.raises(CheckpointError, match="inside each other"):
            clone_logs(root, inside, "new-id")


def test_a_clone_is_consistent_while_the_query_commits_and_purges(root: Path, tmp_path: Path) -> None:
    over = threading.Event()

    def run() -> None:
        batch = 7
        while not over.is_set():
            for partition in range(2):
                folder = root / "state" / "0" / str(partition)
                trees.put(folder / f"{batch + 1}.delta", f"{batch}")
                trees.put(folder / f"{batch + 1}.snapshot", f"{batch}")
                for kind in ("delta", "snapshot"):
                    (folder / f"{batch - 8}.{kind}").unlink(missing_ok=True)
            trees.commit(root, batch)
            batch += 1
            trees.plan(root, batch, trees.kafka(orders={0: batch * 10}))
            for name in ("offsets", "commits"):
                (root / name / str(batch - 9)).unlink(missing_ok=True)
            over.wait(0.01)  # no query is faster, and a busy machine may keep the clone from running

    writer = threading.Thread(target=run)
    writer.start()
    try:
        for number in range(12):
            target = tmp_path / "clones" / str(number)
            made = clone_state(root, target, "new-id", LIMIT)
            committed = made.next_batch - 1
            assert (boundary(target).offsets, boundary(target).commit) == (committed, committed)
            assert {"offsets/" + str(committed - 1), f"offsets/{committed}"} <= trees.names(target)
            assert json.loads((target / "metadata").read_text()) == {"id": "new-id"}
    finally:
        over.set()
        writer.join()


def test_a_clone_is_for_its_user_only(root: Path, target: Path) -> None:
    clone_state(root, target, "new-id", LIMIT)
    assert target.stat().st_mode & 0o777 == target.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_the_state_that_is_a_link_is_not_left_out(root: Path, target: Path) -> None:
    path = root / "state" / "0" / "1"
    moved = root.parent / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    with pytest.raises(CheckpointError, match="symbolic link"):
        clone_state(root, target, "new-id", LIMIT)
    assert not any(target.iterdir())


def test_a_checkpoint_may_be_below_a_link(root: Path, target: Path) -> None:
    mounted = root.parent / "mounted"
    mounted.symlink_to(root)
    assert clone_state(mounted, target, "new-id", LIMIT).next_batch == 7


def test_the_clones_beside_a_checkpoint_are_found_by_incarnation(root: Path) -> None:
    folder = rehearsal_folder(f"file:{root}/", "orders-1.0000000a")
    assert rehearsal_folders(root) == {}
    assert rehearsal_folders(root.parent / "nowhere" / "live") == {}
    Path(str(folder), "plan").mkdir(parents=True)
    (root.parent / "live.rehearsal-of-mine").mkdir()
    (root.parent / "other.rehearsal-orders-1.0000000a").mkdir()
    assert rehearsal_folders(root) == {"orders-1.0000000a": folder}


def test_a_clone_may_begin_some_batches_back(root: Path, target: Path) -> None:
    made = clone_state(root, target, "new-id", LIMIT, drop_last_commit=True, at=5)
    assert made.next_batch == 5
    assert read(target).planned == {"orders": {0: 50}}
    found = trees.names(target)
    assert {name for name in found if name.startswith(("offsets", "commits"))} == {
        "offsets/4",
        "offsets/5",
        "commits/4",
    }
    assert {"state/0/0/5.snapshot", "state/0/1/5.snapshot"} <= found
    assert "state/0/0/6.delta" not in found


def test_a_new_checkpoint_may_begin_some_batches_back(root: Path, target: Path) -> None:
    scratch(root, target, "new-id", at=5)
    assert b'{"orders":{"0":40}}' in (target / "sources" / "0" / "0").read_bytes().replace(b" ", b"")

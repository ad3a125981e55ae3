from __future__ import annotations

import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import (
    Owner,
    boundary,
    check_owner,
    claim,
    owner,
    refuse_if_being_written,
)
from airflow_stream_provider.checkpoint.owner import is_being_written
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees

CONTROL = "file:///data/streams"


def test_the_first_claim_stays(tmp_path: Path) -> None:
    location = f"file:{tmp_path}/not/yet/there"
    assert owner(location) is None
    assert not check_owner(location, "orders", CONTROL)
    for _ in range(2):
        claim(location, "orders", CONTROL)
        assert check_owner(location, "orders", CONTROL)
    assert owner(location) == Owner("orders", CONTROL)
    assert [path.name for path in (tmp_path / "not" / "yet").iterdir()] == ["there.owner"]


def test_others_than_the_drivers_user_can_read_whose_it_is(tmp_path: Path) -> None:
    """Airflow may run as another user, and tells no lag of a checkpoint whose owner it cannot read."""
    claim(tmp_path / "cp", "orders", CONTROL)
    assert stat.filemode((tmp_path / "cp.owner").stat().st_mode) == "-rw-r--r--"


@pytest.mark.parametrize(("stream", "control"), [("other", CONTROL), ("orders", "file:///elsewhere")])
def test_a_checkpoint_has_one_owner(tmp_path: Path, stream: str, control: str) -> None:
    claim(tmp_path / "cp", "orders", CONTROL)
    for ask in (check_owner, claim):
        with pytest.raises(CheckpointError, match=f"belongs to the stream orders of {CONTROL}"):
            ask(tmp_path / "cp", stream, control)
    assert owner(tmp_path / "cp") == Owner("orders", CONTROL)


def test_one_url_may_lead_to_another_control_log(tmp_path: Path) -> None:
    """A connection that names another Kafka, a mount of another disk: the drivers of the log before may run on."""
    claim(tmp_path / "cp", "orders", CONTROL, "a" * 32)
    found = owner(tmp_path / "cp")
    assert found is not None
    assert found.log == "a" * 32
    for ask in (check_owner, claim):
        assert ask(tmp_path / "cp", "orders", CONTROL, "a" * 32) in (True, None)
        assert ask(tmp_path / "cp", "orders", CONTROL) in (True, None), "who only reads does not know its log"
        with pytest.raises(CheckpointError, match="of another control log than that URL leads to now") as refusal:
            ask(tmp_path / "cp", "orders", CONTROL, "b" * 32)
        assert f"remove {tmp_path}/cp.owner" in refusal.value.next_step
        with pytest.raises(CheckpointError, match="belongs to the stream orders of file:///data/streams, not to"):
            ask(tmp_path / "cp", "other", CONTROL, "b" * 32)


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    """A checkpoint, and a symbolic link to it in another folder."""
    folder, link = tmp_path / "data" / "cp", tmp_path / "names" / "orders"
    folder.mkdir(parents=True)
    link.parent.mkdir()
    link.symlink_to(folder)
    return folder, link


@pytest.mark.parametrize("first", [0, 1], ids=["by its name", "by the link"])
def test_a_checkpoint_has_one_owner_whatever_it_is_called(linked: tuple[Path, Path], first: int) -> None:
    folder, link = linked
    (link.parent / "again").symlink_to("orders")
    names = [
        str(folder),
        str(link),
        f"file:{link}/",
        str(link.parent / "again"),
        str(link.parent / "x" / ".." / "again"),
    ]
    claim(names[first], "orders", CONTROL)
    for name in names:
        assert check_owner(name, "orders", CONTROL)
        claim(name, "orders", CONTROL)
        for ask in (check_owner, claim):
            with pytest.raises(CheckpointError, match="belongs to the stream orders") as refusal:
                ask(name, "other", CONTROL)
            assert f"remove {folder}.owner" in refusal.value.next_step
    assert [path.name for path in folder.parent.iterdir() if path != folder] == ["cp.owner"]
    assert {path.name for path in link.parent.iterdir()} == {"orders", "again"}


def test_a_link_higher_up_shows_the_same_owner_file(linked: tuple[Path, Path]) -> None:
    folder, link = linked
    claim(link / "query", "orders", CONTROL)
    with pytest.raises(CheckpointError, match="belongs to the stream orders"):
        claim(folder / "query", "other", CONTROL)
    assert (folder / "query.owner").is_file()


def test_a_link_that_leads_nowhere_has_no_owner_to_be(tmp_path: Path) -> None:
    (tmp_path / "cp").symlink_to("none")
    for ask in (check_owner, claim):
        with pytest.raises(CheckpointError, match="It is not known which folder the checkpoint"):
            ask(tmp_path / "cp", "orders", CONTROL)
    assert [path.name for path in tmp_path.iterdir()] == ["cp"]


def test_of_many_concurrent_claims_one_succeeds(tmp_path: Path) -> None:
    for round in range(20):
        location = tmp_path / str(round)
        barrier = threading.Barrier(4)

        def race(stream: str, location: Path = location, barrier: threading.Barrier = barrier) -> str | None:
            barrier.wait()
            try:
                claim(location, stream, CONTROL)
            except CheckpointError:
                return None
            return stream

        with ThreadPoolExecutor(4) as pool:
            winners = [name for name in pool.map(race, ["a", "b", "c", "d"]) if name]
        found = owner(location)
        assert found is not None
        assert winners == [found.stream]


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"stream": "orders"}'])
def test_an_owner_file_without_a_stream_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "cp.owner").write_text(content)
    with pytest.raises(CheckpointError, match="does not name a stream"):
        check_owner(tmp_path / "cp", "orders", CONTROL)


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be read"):
        claim(tmp_path / "file" / "cp", "orders", CONTROL)
    with pytest.raises(CheckpointError, match="cannot be written"):
        claim("/proc/self/cp", "orders", CONTROL)


def test_a_checkpoint_that_does_not_change_is_not_being_written(tmp_path: Path) -> None:
    assert not is_being_written(tmp_path / "nowhere", 0.0)
    root = trees.new(tmp_path / "cp")
    refuse_if_being_written(root)  # no logs: nothing to watch
    trees.plan(root, 0, "1")
    trees.commit(root, 0)
    assert not is_being_written(root, 0.3)
    refuse_if_being_written(root, seconds=0.3)


def test_a_checkpoint_that_was_written_since_an_earlier_look_is_refused_at_once(tmp_path: Path) -> None:
    root = trees.new(tmp_path / "cp")
    empty = boundary(root)
    refuse_if_being_written(root, 0.0, since=empty)
    trees.plan(root, 0, "1")
    with pytest.raises(CheckpointError, match="does not belong to a stream"):
        refuse_if_being_written(root, 3600.0, since=empty)
    refuse_if_being_written(root, 0.0, since=boundary(root))


def test_a_checkpoint_that_a_job_writes_is_refused(tmp_path: Path) -> None:
    root = trees.new(tmp_path / "cp")
    trees.plan(root, 0, "1")
    over = threading.Event()

    def write() -> None:
        batch = 0
        while not over.is_set():
            trees.commit(root, batch)
            batch += 1
            trees.plan(root, batch, "1")
            time.sleep(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert is_being_written(root, 60.0)
        with pytest.raises(CheckpointError, match="does not belong to a stream") as caught:
            refuse_if_being_written(root, 60.0)
        assert "Stop that job" in caught.value.next_step
    finally:
        over.set()
        writer.join()

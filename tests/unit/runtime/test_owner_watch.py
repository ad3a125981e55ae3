"""What a driver that holds does when somebody removes or replaces the mark beside its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.owner import Owner, owner, owner_file
from airflow_stream_provider.control import make_root
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.runtime.ownership import Ownership
from airflow_stream_provider.runtime.places import open_owners


class Driver:
    """A driver of a stream, as far as its checkpoint's owner is concerned."""

    def __init__(self, folder: Path, control: str) -> None:
        url = (folder / control).as_uri()
        make_root(url)
        self.owner = Owner("orders", url)
        self.ownership = Ownership("orders", url, open_owners(url))
        self.holds = True
        self.lost: list[CheckpointError] = []

    def look(self) -> None:
        self.ownership.put_marks_back(lambda: self.holds, self.lost.append)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoints" / "enrich")


@pytest.fixture
def old(tmp_path: Path, checkpoint: str) -> Driver:
    driver = Driver(tmp_path, "old")
    driver.ownership.claim(checkpoint)
    return driver


def remove_mark(checkpoint: str) -> None:
    found = owner_file(checkpoint)
    assert isinstance(found, Path)
    found.unlink()


def test_a_mark_that_is_gone_is_put_back_and_keeps_another_log_s_driver_away(
    tmp_path: Path, old: Driver, checkpoint: str
) -> None:
    remove_mark(checkpoint)
    old.look()
    assert owner(checkpoint) == old.owner
    with pytest.raises(CheckpointError, match="belongs to the stream orders of"):
        Driver(tmp_path, "new").ownership.claim(checkpoint)
    assert old.lost == []


def test_another_owner_s_mark_ends_the_driver(tmp_path: Path, old: Driver, checkpoint: str) -> None:
    remove_mark(checkpoint)
    new = Driver(tmp_path, "new")
    new.ownership.claim(checkpoint)
    old.look()
    assert [error.fields["owner"] for error in old.lost] == ["orders"]
    assert new.owner.control in str(old.lost[0])
    assert owner(checkpoint) == new.owner


def test_one_that_does_not_hold_touches_nothing(old: Driver, checkpoint: str) -> None:
    remove_mark(checkpoint)
    old.holds = False
    old.look()
    assert owner(checkpoint) is None


def test_a_mark_that_cannot_be_read_ends_nobody(old: Driver, checkpoint: str) -> None:
    remove_mark(checkpoint)
    place = owner_file(checkpoint)
    assert isinstance(place, Path)
    place.mkdir()
    old.look()
    place.rmdir()
    place.write_text("{")
    old.look()
    assert old.lost == []

"""What a driver that holds does when somebody removes or replaces the mark beside its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.owner import Owner, owner, owner_file
from airflow_stream_provider.control import make_root
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.runtime import ownership
from airflow_stream_provider.runtime.ownership import Ownership, OwnerWatch
from airflow_stream_provider.runtime.places import open_owners
from devstack.drivers import wait_for


class Driver:
    """A driver of a stream, as far as its checkpoint's owner is concerned."""

    def __init__(self, folder: Path, control: str) -> None:
        url = (folder / control).as_uri()
        make_root(url)
        self.owner = Owner("orders", url)
        self.ownership = Ownership("orders", url, open_owners(url))
        self.claimed: set[str] = set()
        self.holds = True
        self.lost: list[CheckpointError] = []
        self.watch = OwnerWatch(lambda: self.claimed, self.ownership.mark, lambda: self.holds, self.lost.append)

    def claim(self, checkpoint: str) -> None:
        self.ownership.claim(checkpoint)
        self.claimed.add(checkpoint)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoints" / "enrich")


@pytest.fixture
def old(tmp_path: Path, checkpoint: str) -> Driver:
    driver = Driver(tmp_path, "old")
    driver.claim(checkpoint)
    return driver


def remove_mark(checkpoint: str) -> None:
    found = owner_file(checkpoint)
    assert isinstance(found, Path)
    found.unlink()


def test_a_mark_that_is_gone_is_put_back_and_keeps_another_log_s_driver_away(
    tmp_path: Path, old: Driver, checkpoint: str
) -> None:
    remove_mark(checkpoint)
    old.watch.look()
    assert owner(checkpoint) == old.owner
    with pytest.raises(CheckpointError, match="belongs to the stream orders of"):
        Driver(tmp_path, "new").claim(checkpoint)
    assert old.lost == []


def test_another_owner_s_mark_ends_the_driver(tmp_path: Path, old: Driver, checkpoint: str) -> None:
    remove_mark(checkpoint)
    new = Driver(tmp_path, "new")
    new.claim(checkpoint)
    old.watch.look()
    assert [error.fields["owner"] for error in old.lost] == ["orders"]
    assert new.owner.control in str(old.lost[0])
    assert owner(checkpoint) == new.owner


def test_one_that_does_not_hold_touches_nothing(old: Driver, checkpoint: str) -> None:
    remove_mark(checkpoint)
    old.holds = False
    old.watch.look()
    assert owner(checkpoint) is None


def test_a_mark_that_cannot_be_read_ends_nobody(old: Driver, checkpoint: str) -> None:
    remove_mark(checkpoint)
    place = owner_file(checkpoint)
    assert isinstance(place, Path)
    place.mkdir()
    old.watch.look()
    place.rmdir()
    place.write_text("{")
    old.watch.look()
    assert old.lost == []


def test_it_looks_again_and_again_also_after_an_error_that_nobody_expected(
    monkeypatch: pytest.MonkeyPatch, old: Driver, checkpoint: str
) -> None:
    monkeypatch.setattr(ownership, "SECONDS", 0.01)
    answers = iter([ZeroDivisionError("the JVM is gone")])

    def holds() -> bool:
        for error in answers:
            raise error
        return True

    remove_mark(checkpoint)
    OwnerWatch(lambda: old.claimed, old.ownership.mark, holds, old.lost.append).start()
    wait_for("the mark", lambda: owner(checkpoint) == old.owner, 60)
    old.claimed.clear()  # its thread has nothing more to do

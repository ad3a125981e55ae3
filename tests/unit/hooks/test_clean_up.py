"""The clean-up removes what is idle and not needed, and nothing that somebody is about to use."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.releases import verify
from airflow_stream_provider.hooks import stream_releases
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.retire import KEPT_RELEASES, Stored
from airflow_stream_provider.releases.folder import FolderPlace
from airflow_stream_provider.releases.place import IDLE_SECONDS
from devstack.control_folder import folder_of, publish
from tests.support.control_root import new_log
from tests.support.story import play, record, retired, standby

COUNT = 200


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    return new_log((tmp_path / "control").as_uri())


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text("x = 1\n")
    return path


def age(folder: Path) -> None:
    """Let everything look as if it had been written the day before yesterday."""
    for path in (*folder.glob("heartbeats/*"), *folder.glob("releases/*"), *folder.glob("incoming/*")):
        os.utime(path, times=(time.time() - 2 * IDLE_SECONDS,) * 2, follow_symlinks=False)


def clean_up(folder: Path, read: Callable[[], StreamState]) -> Stored:
    return stream_releases.clean_up(FilesStore(folder), read, [FolderPlace(folder)])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_after_hundreds_of_deployments_the_folder_is_small(log: ControlLog) -> None:
    folder, state = folder_of(log), StreamState()
    for number in range(COUNT):
        deployment, hash = f"orders-{number}-cccc", f"{number:064x}"
        incarnation = f"{deployment}.00000001"
        release = {"version": "1", "hash": hash}
        records = [
            record("declared", deployment=deployment, release=release, policy={}, reason=""),
            standby(incarnation),
            *([retired(deployment)] if number < COUNT - 1 else []),
        ]
        state = play(records, state)
        log.beat(incarnation, Heartbeat())
        (folder / "releases" / hash).mkdir()
        (folder / "releases" / hash / "app.py").write_text("x = 1\n")
        (folder / "incoming" / f"new.{incarnation}.json.killed").write_text("")
        (folder / "releases" / f".{hash}.killed").mkdir()
    age(folder)
    clean_up(folder, lambda: state)
    assert names(folder / "heartbeats") == {f"orders-{COUNT - 1}-cccc.00000001.json"}
    assert names(folder / "releases") == {f"{number:064x}" for number in range(COUNT - KEPT_RELEASES, COUNT)}
    assert names(folder / "incoming") == set()


def test_what_is_new_stays(log: ControlLog, script: Path) -> None:
    folder = folder_of(log)
    log.beat("orders-1-aaaa.00000001", Heartbeat())
    (folder / "incoming" / "new.slow").write_text("")
    release = publish(folder, version="1", application=script)
    clean_up(folder, StreamState)
    assert log.store.heartbeats() == ["orders-1-aaaa.00000001"]
    assert names(folder / "incoming") == {"new.slow"}
    verify(release.folder(folder), release)


def test_an_old_release_that_is_published_again_stays(log: ControlLog, script: Path) -> None:
    """`check` publishes it; `submit` declares it minutes later."""
    folder = folder_of(log)
    release = publish(folder, version="1", application=script)
    age(folder)
    assert publish(folder, version="1", application=script) == release
    clean_up(folder, StreamState)
    verify(release.folder(folder), release)


def test_a_release_that_nobody_needs_goes_whole(log: ControlLog, script: Path) -> None:
    folder = folder_of(log)
    release: Release = publish(folder, version="1", application=script)
    age(folder)
    assert clean_up(folder, StreamState).releases == {release.hash}
    assert names(folder / "releases") == set()


def test_links_are_removed_and_not_followed(log: ControlLog, tmp_path: Path) -> None:
    folder = folder_of(log)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("")
    for path in (folder / "incoming" / "link", folder / "releases" / f".{'a' * 64}.link"):
        path.symlink_to(tmp_path / "precious")
    age(folder)
    clean_up(folder, StreamState)
    assert names(folder / "incoming") | names(folder / "releases") == set()
    assert names(tmp_path / "precious") == {"file"}


@pytest.mark.parametrize("name", ["incoming", "heartbeats", "releases", "."])
def test_a_folder_that_was_exchanged_for_a_link_is_not_followed(log: ControlLog, tmp_path: Path, name: str) -> None:
    """Whoever runs drivers may write to the control root, and shall not remove what only Airflow may."""
    folder, home = folder_of(log), tmp_path / "home"
    for path in (home, *(home / each for each in ("incoming", "heartbeats", "releases"))):
        (path / ".ssh").mkdir(parents=True)
        (path / ".netrc").write_text("")
        (path / "airflow.cfg").write_text("")
    for path in home.rglob("*"):
        os.utime(path, times=(0, 0))
    before = sorted(home.rglob("*"))
    linked = folder / name
    linked.rename(tmp_path / "moved")
    linked.symlink_to(home)
    with pytest.raises(ControlUnavailable, match=rf"{linked.name} is a link or a file where a folder belongs"):
        clean_up(folder, StreamState)
    assert sorted(home.rglob("*")) == before


def test_a_folder_that_is_exchanged_meanwhile_redirects_nothing(log: ControlLog, tmp_path: Path) -> None:
    folder, home = folder_of(log), tmp_path / "home"
    places = [folder / "incoming", folder / "releases"]
    for path in (*places, home):
        path.mkdir(exist_ok=True)
        (path / ".new.killed").write_text("")
        os.utime(path / ".new.killed", times=(0, 0))
    left = iter(places)

    def exchange() -> StreamState:  # once when each of them was listed
        place = next(left)
        place.rename(tmp_path / f"moved-{place.name}")
        place.symlink_to(home)
        return StreamState()

    clean_up(folder, exchange)
    assert names(home) == {".new.killed"}
    assert [names(tmp_path / f"moved-{place.name}") for place in places] == [set(), set()]


def test_what_cannot_be_removed_is_in_nobodys_way(
    log: ControlLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str, dir_fd: int) -> None:
        raise OSError("Device or resource busy")

    monkeypatch.setattr(shutil, "rmtree", fail)
    folder = folder_of(log)
    (folder / "incoming" / "deep").mkdir()
    (folder / "incoming" / "new.killed").write_text("")
    age(folder)
    clean_up(folder, StreamState)
    assert names(folder / "incoming") == {"deep"}
    assert "deep cannot be removed" in caplog.text


def test_a_folder_that_is_away_is_unavailable(log: ControlLog) -> None:
    folder_of(log).rename(folder_of(log).with_name("unmounted"))
    with pytest.raises(ControlUnavailable):
        clean_up(folder_of(log), StreamState)

"""Releases in a folder of their own are as in the control folder: the same modes, checks and clean-up."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_stream_provider.control.releases import file_hashes, make_release
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StorageUnavailable, StreamError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.open_place import address_of, open_place
from devstack.control_folder import publish


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Release, dict[str, bytes]]:
    (tmp_path / "app.py").write_text("x = 1\n")
    return make_release(version="1", application=tmp_path / "app.py")


def test_a_release_is_published_verified_and_removed(tmp_path: Path, parts: tuple[Release, dict[str, bytes]]) -> None:
    storage = tmp_path / "storage"
    storage.mkdir()
    place = open_place(storage.as_uri(), None, "orders", tmp_path / "control" / "orders")
    release, files = parts
    assert place.clean_up(lambda idle: idle) == frozenset()  # nothing was published yet
    place.publish(release, files)
    place.publish(release, files)
    assert place.verify(release) == file_hashes(files)
    folder = storage / "orders" / "releases" / release.hash
    assert folder.stat().st_mode & 0o7777 == 0o2750
    assert {path.stat().st_mode & 0o7777 for path in folder.iterdir()} == {0o440}
    assert place.clean_up(lambda idle: idle) == frozenset()
    os.utime(folder, times=(0, 0))
    assert place.clean_up(lambda idle: frozenset()) == frozenset()
    assert place.clean_up(lambda idle: idle) == {release.hash}
    assert list(folder.parent.iterdir()) == []


def test_a_changed_file_is_found(tmp_path: Path, parts: tuple[Release, dict[str, bytes]]) -> None:
    place = open_place(tmp_path.as_uri(), None, "orders", tmp_path)
    release, files = parts
    place.publish(release, files)
    path = tmp_path / "orders" / "releases" / release.hash / "app.py"
    path.chmod(0o600)
    path.write_text("x = 2\n")
    with pytest.raises(StreamError, match="have changed since they were published"):
        place.verify(release)


def test_a_storage_that_is_not_mounted_is_not_made(tmp_path: Path, parts: tuple[Release, dict[str, bytes]]) -> None:
    place = open_place((tmp_path / "none").as_uri(), None, "orders", tmp_path)
    with pytest.raises(StorageUnavailable, match=f"There is no folder {tmp_path / 'none'}"):
        place.publish(*parts)
    assert not (tmp_path / "none").exists()


def test_the_folders_of_one_log_are_made_and_not_the_storage(
    tmp_path: Path, parts: tuple[Release, dict[str, bytes]]
) -> None:
    part = StorageAddress.parse((tmp_path / "storage").as_uri()).of_log("file:///control", "1a2b")
    place = open_place(part.url, None, "orders", None)
    with pytest.raises(StorageUnavailable, match=f"There is no folder {tmp_path / 'storage'},"):
        place.publish(*parts)
    (tmp_path / "storage").mkdir()
    place.publish(*parts)
    (made,) = (tmp_path / "storage").iterdir()
    assert made == Path(part.path)
    for folder in (made, made / "orders", made / "orders" / "releases"):
        assert folder.stat().st_mode & 0o7777 == 0o2770
    assert address_of(replace(parts[0], storage=part.url), "orders", None) == f"{made}/orders/releases/{parts[0].hash}"


def test_what_killed_writers_have_left_goes(tmp_path: Path, parts: tuple[Release, dict[str, bytes]]) -> None:
    place = open_place(tmp_path.as_uri(), None, "orders", None)
    place.publish(*parts)
    releases = tmp_path / "orders" / "releases"
    (releases / ".killed").mkdir()
    for path in releases.iterdir():
        os.utime(path, times=(0, 0))
    assert place.clean_up(lambda idle: idle) == {parts[0].hash}
    assert list(releases.iterdir()) == []


@pytest.mark.parametrize("level", [0, 1, 2], ids=["of the log", "of the stream", "of the releases"])
def test_nothing_is_removed_through_a_link(tmp_path: Path, parts: tuple[Release, dict[str, bytes]], level: int) -> None:
    """Who may write to one storage would have Airflow's user empty another one."""
    mine, theirs = (
        StorageAddress.parse((tmp_path / name).as_uri()).of_log("file:///control", "1a2b")
        for name in ("staging", "production")
    )
    for part in (mine, theirs):
        Path(part.whole.path).mkdir()
        open_place(part.url, None, "orders", None).publish(*parts)
    link, target = (Path(part.path, *("orders", "releases")[:level]) for part in (mine, theirs))
    link.rename(tmp_path / "aside")
    link.symlink_to(target)
    kept = Path(theirs.path) / "orders" / "releases" / parts[0].hash
    os.utime(kept, times=(0, 0))
    with pytest.raises(ControlUnavailable, match="is a link or a file where a folder belongs"):
        open_place(mine.url, None, "orders", None).clean_up(lambda idle: idle)
    assert (kept / "app.py").is_file()


def test_the_storage_itself_may_be_a_link(tmp_path: Path, parts: tuple[Release, dict[str, bytes]]) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "link").symlink_to("storage")
    place = open_place((tmp_path / "link").as_uri(), None, "orders", None)
    place.publish(*parts)
    os.utime(tmp_path / "storage" / "orders" / "releases" / parts[0].hash, times=(0, 0))
    assert place.clean_up(lambda idle: idle) == {parts[0].hash}


def test_the_storage_is_no_part_of_the_hash_and_travels_in_the_record(
    tmp_path: Path, parts: tuple[Release, dict[str, bytes]]
) -> None:
    release, _ = parts
    (tmp_path / "orders" / "releases").mkdir(parents=True)
    assert publish(tmp_path / "orders", version="1", application=tmp_path / "app.py") == release
    stored = Release.from_json({**release.to_json(), "storage": "file:///data"})
    assert Release.from_json(stored.to_json()) == stored
    assert stored.hash == release.hash
    assert stored.settings() == release.settings()
    assert address_of(stored, "orders", tmp_path) == f"/data/orders/releases/{release.hash}"
    assert address_of(release, "orders", tmp_path) == str(release.folder(tmp_path))


def test_a_record_that_somebody_else_wrote_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        address_of(Release("1", "a" * 64, storage="gopher://x"), "orders", tmp_path)
    with pytest.raises(SpecError):
        address_of(Release("1", "a" * 64, storage="file:///x"), "../orders", tmp_path)

"""A folder that is not mounted is not a control root, and does not look like a stream that was never deployed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.control import FilesRoot, FilesStore, make_root, open_log
from airflow_stream_provider.control.root import MARKER, local_folder
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError


def test_a_root_is_made_once(tmp_path: Path) -> None:
    url = (tmp_path / "data" / "streams").as_uri()
    assert make_root(url)
    assert not make_root(url)
    assert not FilesRoot(url).exists("orders")
    open_log(url, "orders", create=True)
    assert FilesRoot(url).exists("orders")


def test_without_its_marker_everything_refuses_and_nothing_is_made(tmp_path: Path) -> None:
    """As on a machine where the control folder is not mounted: its mount point is an empty folder."""
    root = tmp_path / "streams"
    make_root(root.as_uri())
    open_log(root.as_uri(), "orders", create=True)
    root.rename(tmp_path / "unmounted")
    root.mkdir()
    store = FilesStore(root / "orders")
    calls: tuple[Callable[[], object], ...] = (
        lambda: open_log(root.as_uri(), "orders"),
        lambda: open_log(root.as_uri(), "orders", create=True),
        lambda: FilesRoot(root.as_uri()).exists("orders"),
        store.check,
        store.initialise,
    )
    for call in calls:
        with pytest.raises(ControlUnavailable, match=f"is not a control root: it has no file {MARKER}") as refusal:
            call()
        assert f"airflow streams init {root.as_uri()}" in refusal.value.next_step
    assert list(root.iterdir()) == []


def test_a_folder_that_everybody_may_write_to_is_no_control_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(SpecError, match="Everybody may write"):
        make_root(tmp_path.as_uri())
    tmp_path.chmod(0o755)
    assert make_root(tmp_path.as_uri())
    assert tmp_path.stat().st_mode & 0o777 == 0o755, "it may have been chosen on purpose"


def test_a_link_is_no_marker(tmp_path: Path) -> None:
    (tmp_path / MARKER).symlink_to(tmp_path)
    with pytest.raises(ControlUnavailable):
        make_root(tmp_path.as_uri())


@pytest.mark.parametrize("url", ["s3://bucket/streams", "file://host/streams", "streams", "/data/streams", "file:data"])
def test_only_file_urls_with_an_absolute_path_are_accepted(url: str) -> None:
    with pytest.raises(SpecError, match="is not file:///an/absolute/folder"):
        local_folder(url)


@pytest.mark.parametrize("name", ["team#1", "team#", "team?1", "team%00"])
def test_two_folders_are_never_one(name: str) -> None:
    """What is behind ? and # is no part of a URL's path: the streams of team#1 and team#2 would have one log."""
    with pytest.raises(SpecError, match="a character that ends the path of a URL"):
        local_folder(f"file:///data/{name}")
    assert local_folder("file:///data/team%231") == Path("/data/team#1")


@pytest.mark.parametrize("name", ["team,1/streams", "team%2C1"])
def test_a_folder_that_would_be_two_in_a_list_of_spark_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match=r"has a comma in its path, and Spark's lists of files \(--py-files\)"):
        local_folder(f"file:///data/{name}")
    with pytest.raises(SpecError, match="Rename the folder"):
        make_root(f"file:///data/{name}")


def test_a_file_url_is_unquoted() -> None:
    assert local_folder("file:///data/my%20streams") == Path("/data/my streams")
    assert local_folder("file://localhost/data") == Path("/data")

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import (
    check_location,
    file_system_of,
    local_path,
    locate,
    normal_form,
    real_form,
    recorded_form,
)
from airflow_stream_provider.checkpoint.files import FileFacts, Place
from airflow_stream_provider.checkpoint.local_files import LocalFiles
from airflow_stream_provider.checkpoint.location import Storage, qualified, reach
from airflow_stream_provider.lifecycle.errors import CheckpointError


@pytest.mark.parametrize(
    "location",
    [
        "/data/a b",
        "file:/data/a b",
        "file:///data/a b",
        "file://localhost/data/a b",
        "FILE:/data/a b",
        "file:////data/a b",
        "/data/a b/",
        "file:/data//./a b//",
        "/data/b/../a b",
        "file:///data/a b/c/..",
    ],
)
def test_all_spellings_of_a_folder_are_the_same_path(location: str) -> None:
    assert local_path(location) == Path("/data/a b")


@pytest.mark.parametrize(
    ("location", "form"),
    [("/data/a/", "/data/a"), ("file:/data/b/../a", "/data/a"), ("hdfs://n/a/", "hdfs://n/a"), ("a/", "a"), ("", "")],
)
def test_one_place_has_one_normal_form_also_where_no_stream_can_be(location: str, form: str) -> None:
    assert normal_form(location) == form


@pytest.mark.parametrize("name", ["50%20", "cp#1", "a?b", "a:b"])
def test_nothing_is_escaped(name: str) -> None:
    assert local_path(f"/data/{name}") == local_path(f"file:/data/{name}") == Path(f"/data/{name}")


@pytest.mark.parametrize("location", ["hdfs://namenode/cp", "s3a://bucket/cp", "file://elsewhere/cp", "dbfs:/cp"])
def test_other_file_systems_are_named(location: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        local_path(location)
    assert location in str(caught.value)
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("cp", "relative"),
        ("file:cp", "rel"),
        ("/", "names no folder"),
        ("/a/..", "names"),
    ],
)
def test_empty_and_relative_locations_are_refused(location: str, why: str) -> None:
    with pytest.raises(CheckpointError, match=why):
        check_location(location)


def test_a_temporary_checkpoint_of_spark_is_refused(tmp_path: Path) -> None:
    made_up = tmp_path / "temporary-0b1c2d3e-1234-4000-8000-000000000001"
    with pytest.raises(CheckpointError, match="temporary"):
        check_location(str(made_up))
    assert check_location(tmp_path / "temporary-orders") == tmp_path / "temporary-orders"


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    assert check_location(f"file:{tmp_path}/new/folder") == tmp_path / "new" / "folder"
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="is a file"):
        check_location(tmp_path / "file" / "checkpoint")


def test_a_folder_that_cannot_be_written_is_named() -> None:
    # A kernel file system: nobody, not even root, creates files there.
    folder = "/proc/self"
    if not os.path.isdir(folder):
        pytest.skip("no /proc")
    with pytest.raises(CheckpointError, match="is not writable"):
        check_location(f"{folder}/checkpoint")


def test_dots_are_removed_as_spark_removes_them_also_behind_a_link(tmp_path: Path) -> None:
    """Hadoop's Path looks at names alone: the operating system would go up from where the link leads to."""
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/away")
    assert locate(f"{tmp_path}/link/../cp") == tmp_path / "cp"


def test_two_names_of_one_folder_are_one_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    forms = {real_form(f"{spelling}{tmp_path}/{name}") for name in ("a/cp", "b/cp") for spelling in ("", "file:")}
    assert forms == {f"{tmp_path.resolve()}/a/cp"}
    assert real_form("hdfs://nn:8020/a/") == "hdfs://nn/a"
    assert real_form("a/") == "a"
    assert real_form("") == ""


@pytest.mark.parametrize("to", ["none", "cp", "file/x"], ids=["nowhere", "to itself", "through a file"])
def test_a_link_that_leads_to_no_folder_is_refused_before_anything_is_written(tmp_path: Path, to: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "cp").symlink_to(to)
    with pytest.raises(CheckpointError, match=r"It is not known which folder the checkpoint .* is") as caught:
        check_location(tmp_path / "cp")
    assert "name that folder" in caught.value.next_step


def test_a_link_to_the_root_is_refused_as_the_root_is(tmp_path: Path) -> None:
    (tmp_path / "cp").symlink_to("/")
    with pytest.raises(CheckpointError, match=r"The checkpoint location .*/cp names no folder"):
        check_location(tmp_path / "cp")


def test_behind_a_link_the_folder_that_gets_the_owner_file_must_be_writable() -> None:
    with tempfile.TemporaryDirectory() as name:  # that of tmp_path is root's alone
        root = Path(name)
        (root / "data" / "cp").mkdir(parents=True)
        (root / "link").symlink_to("data/cp")
        for folder, mode in ((root, 0o755), (root / "data" / "cp", 0o777)):
            folder.chmod(mode)
        with somebody():
            check_location(root / "data" / "cp")
            with pytest.raises(CheckpointError, match=r"is not writable: .* \(tried in .*/data\)"):
                check_location(root / "link")


@contextmanager
def somebody() -> Iterator[None]:
    """Nothing is forbidden to root: be another user for a moment."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    else:
        pytest.skip("only root can make a folder that this user may not write to")
    try:
        yield
    finally:
        os.seteuid(me)


def test_what_is_encrypted_must_be_so_beside_it_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: the root of an encryption zone of HDFS, beside which the clones are. It is pretended."""
    checkpoint = tmp_path / "streams" / "cp"
    checkpoint.mkdir(parents=True)
    zone, facts = checkpoint, LocalFiles.facts

    def of_zone(files: LocalFiles, paths: Sequence[Place]) -> list[FileFacts | None]:
        if tmp_path / "streams" in paths and denied:
            raise PermissionError
        found = zip(paths, facts(files, paths), strict=True)
        return [fact and replace(fact, is_encrypted=zone in (path, *path.parents)) for path, fact in found]

    denied = False
    monkeypatch.setattr(LocalFiles, "facts", of_zone)
    with pytest.raises(CheckpointError, match=r"is encrypted by its storage, but .*, where its clones are, is not"):
        check_location(checkpoint)
    assert check_location(checkpoint.parent / "not made yet")
    zone = tmp_path / "streams"
    assert check_location(checkpoint) == checkpoint
    zone, denied = checkpoint, True
    assert check_location(checkpoint) == checkpoint, "S3A says of everything that it is encrypted"


# -- storage that is not mounted here ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spellings", "form"),
    [
        (("hdfs://nn:9820/a", "hdfs://nn:9820//a/", "HDFS://NN:9820/a/./b/.."), "hdfs://nn:9820/a"),
        (("hdfs://nn/a", "hdfs://nn:8020/a"), "hdfs://nn/a"),
        (("s3a://bucket/a/b", "s3a://bucket//a//b/", "s3://bucket/a/b", "s3n://bucket/a/b"), "s3a://bucket/a/b"),
        (
            ("abfs://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x/"),
            "abfss://c@a.dfs.core.windows.net/x",
        ),
        (("gs://bucket/A",), "gs://bucket/A"),
    ],
)
def test_all_spellings_of_a_remote_folder_have_one_normal_form(spellings: tuple[str, ...], form: str) -> None:
    assert {normal_form(each) for each in spellings} == {form}


@pytest.fixture
def reached(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """A driver that reaches other storage, with this `fs.defaultFS`; the roots that it has opened."""
    opened: list[str] = []
    files: Any = object()
    reach(Storage(lambda: request.param, lambda root: opened.append(root) or files))
    yield opened
    reach(None)


@pytest.mark.parametrize("reached", ["file:///", "hdfs://nn:9820"], indirect=True)
def test_a_driver_reaches_what_is_not_mounted(reached: list[str]) -> None:
    place = locate("hdfs://nn:9820//a/b/")
    assert (str(place), place.name) == ("hdfs://nn:9820/a/b", "b")
    assert reached == ["hdfs://nn:9820"]
    assert locate(place) is place
    assert locate("file:/a") == Path("/a")
    with pytest.raises(CheckpointError, match="in no local or mounted folder"):
        local_path("s3a://bucket/a")


@pytest.mark.parametrize("reached", ["hdfs://nn:9820/"], indirect=True)
def test_a_path_is_on_the_default_file_system_of_the_driver(reached: list[str]) -> None:
    assert str(locate("/a b/c#1")) == qualified("/a b/c#1") == "hdfs://nn:9820/a b/c#1"
    assert str(locate("hdfs:/a")) == str(locate("hdfs:///a")) == "hdfs://nn:9820/a"
    assert normal_form("/a/") == "hdfs://nn:9820/a"
    assert qualified("hdfs:/a") == qualified("hdfs:///a") == "hdfs://nn:9820/a"
    assert qualified("file:/a") == "file:/a"
    assert qualified("a") == "a"
    # Another driver has recorded them: where `/a` was left as it is, it is no path on HDFS.
    assert recorded_form("/a/") == recorded_form("file:/a") == "/a"
    assert recorded_form("hdfs:///a") == normal_form("hdfs:///a") == "hdfs://nn:9820/a"
    assert [file_system_of(form) for form in ("/a", "hdfs://nn:9820/a")] == ["file:", "hdfs://nn:9820"]
    with pytest.raises(CheckpointError, match="is relative"):
        locate("a")


@pytest.mark.parametrize("reached", ["viewfs:///", "maprfs:/", "alluxio:///cluster/"], indirect=True)
def test_a_default_file_system_without_a_host_is_no_local_disk(reached: list[str]) -> None:
    """Found by a review: ownership was then written to the driver's own disk."""
    root = str(locate("/a/b")).removesuffix("/a/b")
    assert root in ("viewfs://", "maprfs://", "alluxio://")
    for spelling in ("/a//b/", f"{root}/a/b", f"{root[:-2]}/a/b"):
        assert str(locate(spelling)) == qualified(spelling) == normal_form(spelling) == f"{root}/a/b"
    assert set(reached) == {root}
    assert recorded_form(f"{root}/a/b") == f"{root}/a/b"
    assert file_system_of(f"{root}/a/b") == root
    assert str(locate(f"{root}other/a")) == f"{root}other/a"
    assert locate("file:/a") == Path("/a")
    with pytest.raises(CheckpointError, match="names no folder"):
        locate("/")
    with pytest.raises(CheckpointError, match="names no host or bucket"):
        locate("hdfs:///a")


@pytest.mark.parametrize("reached", ["file:///"], indirect=True)
def test_a_path_stays_local_where_that_is_the_default(reached: list[str]) -> None:
    assert locate("/a") == Path("/a")
    assert qualified("/a") == "/a"
    assert reached == []


@pytest.mark.parametrize("reached", ["file:///"], indirect=True)
@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("hdfs:///a", "names no host or bucket"),
        ("s3a:a", "is relative"),
        ("s3a://bucket", "is relative"),
        ("s3a://bucket/", "names no folder"),
        ("s3a://bucket/a/..", "names no folder"),
        ("file://elsewhere/a", "only local and mounted folders"),
    ],
)
def test_what_names_no_folder_is_refused(reached: list[str], location: str, why: str) -> None:
    with pytest.raises(CheckpointError, match=why):
        locate(location)
    assert reached == []


@pytest.mark.parametrize("reached", ["file:///"], indirect=True)
def test_a_temporary_checkpoint_on_other_storage_is_refused_before_that_is_asked(reached: list[str]) -> None:
    with pytest.raises(CheckpointError, match="temporary"):
        check_location("hdfs://nn:9820/tmp/temporary-0b1c2d3e-1234-4000-8000-000000000001")

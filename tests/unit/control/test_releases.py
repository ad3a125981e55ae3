"""Releases are named by their contents, and a changed file is found."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.control import releases
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP, verify
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StreamError
from airflow_stream_provider.lifecycle.formats import FORMAT
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.release import Release
from devstack.control_folder import publish


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "apps" / "orders.py"
    path.parent.mkdir()
    path.write_text("print(1)\n")
    return path


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    (tmp_path / "orders" / "releases").mkdir(parents=True)
    return tmp_path / "orders"


def test_the_files_of_a_release_are_copied_under_its_hash(script: Path, stream: Path) -> None:
    helper = script.with_name("helper.py")
    helper.write_text("x = 1\n")
    release = publish(
        stream, version="2", application=script, arguments=["--a"], py_files=[helper], conf={"spark.x": "1"}
    )
    folder = stream / "releases" / release.hash
    assert release.folder(stream) == folder
    assert {path.name for path in folder.iterdir()} == {"orders.py", "helper.py", LAUNCHER, RUNTIME_ZIP}
    assert (folder / "orders.py").read_text() == "print(1)\n"
    assert Release.from_json(release.to_json()) == release
    verify(folder, release)


def test_the_same_contents_are_the_same_release(script: Path, stream: Path) -> None:
    first = publish(stream, version="2", application=script)
    assert publish(stream, version="2", application=script) == first
    assert [path.name for path in (stream / "releases").iterdir()] == [first.hash]


def test_every_difference_is_another_release(script: Path, stream: Path) -> None:
    hashes = {
        publish(stream, version="2", application=script).hash,
        publish(stream, version="3", application=script).hash,
        publish(stream, version="2", application=script, arguments=["--a"]).hash,
        publish(stream, version="2", application=script, conf={"spark.x": "1"}).hash,
    }
    script.write_text("print(2)\n")
    hashes.add(publish(stream, version="2", application=script).hash)
    assert len(hashes) == 5


def test_a_release_says_which_format_its_runtime_knows(
    script: Path, stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = publish(stream, version="2", application=script)
    assert plain.format == FORMAT
    monkeypatch.setattr(releases, "FORMAT", FORMAT + 1)
    later, _ = releases.make_release(version="2", application=script)
    assert (later.to_json()["format"], later.hash) == (FORMAT + 1, plain.hash)
    verify(plain.folder(stream), later)


def test_only_the_packages_for_the_driver_are_shipped(script: Path, stream: Path) -> None:
    release = publish(stream, version="2", application=script)
    with zipfile.ZipFile(release.folder(stream) / RUNTIME_ZIP) as archive:
        names = {name.split("/")[1] for name in archive.namelist()}
    assert names == {"__init__.py", "lifecycle", "control", "checkpoint", "runtime", "sinks"}


@pytest.mark.parametrize("name", ["orders.py", LAUNCHER, RUNTIME_ZIP])
def test_a_changed_or_missing_file_is_found(script: Path, stream: Path, name: str) -> None:
    release = publish(stream, version="2", application=script)
    path = release.folder(stream) / name
    path.parent.chmod(0o770)
    path.unlink()
    with pytest.raises(StreamError, match=f"have changed since they were published: {name} is missing"):
        verify(path.parent, release)
    path.write_bytes(b"changed")
    with pytest.raises(StreamError, match=f"their hash is .* and was {release.hash}"):
        verify(path.parent, release)
    with pytest.raises(StreamError, match="have changed since they were published"):
        publish(stream, version="2", application=script)
    assert path.read_bytes() == b"changed", "whoever looks into it finds it as it was"


def test_changed_settings_are_found(script: Path, stream: Path) -> None:
    release = publish(stream, version="2", application=script)
    with pytest.raises(StreamError, match="have changed"):
        verify(release.folder(stream), dataclasses.replace(release, arguments=("--other",)))


def test_a_missing_file_and_two_files_of_one_name_are_refused(script: Path, stream: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="There is no file"):
        publish(stream, version="2", application=script.with_name("gone.py"))
    twin = tmp_path / "orders.py"
    twin.write_text("")
    launcher = tmp_path / LAUNCHER
    launcher.write_text("")
    for file in (twin, launcher):
        with pytest.raises(SpecError, match=f"Two files of the release are named {file.name}"):
            publish(stream, version="2", application=script, py_files=[file])
    assert list((stream / "releases").iterdir()) == []


def test_a_py_file_that_would_be_two_in_a_list_of_spark_is_refused(script: Path, stream: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a,b.py"
    odd.write_text("")
    with pytest.raises(SpecError, match=r"a,b\.py has a comma in its name, and Spark's lists of files \(--py-files\)"):
        publish(stream, version="2", application=script, py_files=[odd])
    assert list((stream / "releases").iterdir()) == []


@pytest.mark.parametrize("hash", ["", "a" * 16, "../../../tmp", "A" * 64, "a" * 64 + "/", "a" * 64 + "\n"])
def test_what_is_no_hash_leads_nowhere(stream: Path, hash: str) -> None:
    with pytest.raises(SpecError, match="is not an id"):
        Release("1", hash).folder(stream)


def test_the_hash_is_a_whole_sha_256(script: Path, stream: Path) -> None:
    assert len(publish(stream, version="2", application=script).hash) == 64


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (lambda folder: (folder / "argparse.py").write_text(""), "argparse.py does not belong there"),
        (lambda folder: (folder / "__pycache__").mkdir(), "__pycache__ does not belong there"),
        (lambda folder: (folder / "x").symlink_to("/etc/passwd"), "x does not belong there"),
        (lambda folder: replace_by_link(folder / "orders.py"), "orders.py is no regular file"),
        (lambda folder: replace_by_link(folder / LAUNCHER), f"{LAUNCHER} is no regular file"),
        (lambda folder: replace_by_link(folder), "orders.py is missing"),
    ],
)
def test_what_does_not_belong_to_a_release_is_found(
    script: Path, stream: Path, plant: Callable[[Path], object], says: str
) -> None:
    release = publish(stream, version="2", application=script)
    folder = release.folder(stream)
    folder.chmod(0o770)
    plant(folder)
    for act in (lambda: verify(folder, release), lambda: publish(stream, version="2", application=script)):
        with pytest.raises(StreamError, match="have changed since they were published") as refusal:
            act()
        assert says in refusal.value.message


def replace_by_link(path: Path) -> None:
    """The same contents, but elsewhere: whoever owns that may change it later."""
    path.rename(path.parent.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent.parent / "elsewhere")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_release_is_written_once_and_read_by_the_group(script: Path, stream: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = publish(stream, version="2", application=script).folder(stream)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o7777 == 0o2750
    assert {path.stat().st_mode & 0o7777 for path in folder.iterdir()} == {0o440}


def test_a_release_is_not_published_where_no_stream_is(script: Path, tmp_path: Path) -> None:
    with pytest.raises(ControlUnavailable):
        publish(tmp_path / "unmounted", version="2", application=script)
    assert not (tmp_path / "unmounted").exists()


def test_the_environment_is_part_of_the_release_and_its_hash(script: Path, stream: Path) -> None:
    plain = publish(stream, version="1", application=script)
    same = publish(stream, version="1", application=script, environment={})
    other = publish(stream, version="1", application=script, environment={"REGION": "eu"})
    assert plain == same
    assert other.hash != plain.hash
    assert Release.from_json(other.to_json()) == other
    verify(other.folder(stream), other)
    verify(plain.folder(stream), plain)


def test_what_steers_a_terminal_is_a_setting_as_any_other(script: Path, stream: Path) -> None:
    arguments, conf = ["--delimiter", "\x01"], {"spark.hadoop.textinputformat.record.delimiter": "\r\n"}
    published = publish(stream, version="2", application=script, arguments=arguments, conf=conf)
    record = make_record(Kind.DECLARED, "airflow", deployment="orders-1", release=published.to_json())
    read = Release.from_json(Record.from_json(record.to_json(), 1)["release"])
    assert read == published
    verify(published.folder(stream), read)

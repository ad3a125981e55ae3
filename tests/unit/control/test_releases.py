"""Releases are named by their contents, and a changed file is found."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import pytest

from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP, publish, verify
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.release import Release


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "apps" / "orders.py"
    path.parent.mkdir()
    path.write_text("print(1)\n")
    return path


@pytest.fixture
def stream(tmp_path: Path) -> Path:
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
    verify(stream, release)


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


def test_only_the_packages_for_the_driver_are_shipped(script: Path, stream: Path) -> None:
    release = publish(stream, version="2", application=script)
    with zipfile.ZipFile(release.folder(stream) / RUNTIME_ZIP) as archive:
        names = {name.split("/")[1] for name in archive.namelist()}
    assert names == {"__init__.py", "lifecycle", "control", "checkpoint", "runtime"}


@pytest.mark.parametrize("name", ["orders.py", LAUNCHER, RUNTIME_ZIP])
def test_a_changed_or_missing_file_is_found(script: Path, stream: Path, name: str) -> None:
    release = publish(stream, version="2", application=script)
    path = release.folder(stream) / name
    path.write_bytes(b"changed")
    with pytest.raises(StreamError, match="have changed since they were published"):
        verify(stream, release)
    path.unlink()
    with pytest.raises(StreamError, match=f"found no file {name}"):
        verify(stream, release)


def test_changed_settings_are_found(script: Path, stream: Path) -> None:
    release = publish(stream, version="2", application=script)
    with pytest.raises(StreamError, match="have changed"):
        verify(stream, dataclasses.replace(release, arguments=("--other",)))


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
    assert not stream.exists()

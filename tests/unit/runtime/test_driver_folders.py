"""Which folders end with a driver, and that no checkpoint is kept there."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.runtime import driver_folders
from airflow_stream_provider.runtime.driver_folders import check_kept, install, keep_logs_small, logs, own_folder


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver in the folder `work`, with its private copy in `copy`; other folders are beside them."""
    monkeypatch.setattr(driver_folders, "_own", {})
    monkeypatch.setattr(driver_folders, "_made", deque(maxlen=3))
    monkeypatch.setattr(tempfile, "mkdtemp", tempfile.mkdtemp)  # put back at the end
    for name in ("work", "copy", "shared"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    install(tmp_path / "copy")
    return tmp_path


def test_what_a_driver_is_in_and_what_it_makes_is_its_own(driver: Path) -> None:
    assert own_folder(os.path.abspath("checkpoint")) == f"{driver}/work, the driver's working folder"
    assert own_folder(driver / "copy" / "release" / "out") == f"{driver}/copy, the driver's private copy of the release"
    made = tempfile.mkdtemp(dir=driver / "shared")
    assert own_folder(made) == f"{made}, a temporary folder that this driver has made"
    with tempfile.TemporaryDirectory() as other:
        assert own_folder(f"{other}/checkpoint").startswith(other)


def test_what_it_found_there_is_not(driver: Path) -> None:
    """Another program's folder for temporary files, a neighbour of the same beginning, and the folder above."""
    for path in (
        driver,
        driver / "shared" / "checkpoint",
        driver / "work-2",
        Path(tempfile.gettempdir()) / "tmpabcdefgh",
    ):
        assert own_folder(path) == ""


def test_the_folder_is_that_in_which_the_driver_was_started(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(driver / "shared")
    assert own_folder(driver / "work" / "checkpoint")
    assert own_folder(driver / "shared" / "checkpoint") == ""


def test_a_driver_in_the_root_folder_does_not_own_everything(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    install(driver / "copy")
    assert own_folder(driver / "shared") == ""


def test_links_are_followed(driver: Path) -> None:
    (driver / "shared" / "link").symlink_to(driver / "work")
    assert own_folder(driver / "shared" / "link" / "checkpoint").startswith(f"{driver}/work,")


def test_a_script_that_makes_folders_for_ever_does_not_fill_the_memory(driver: Path) -> None:
    made = [tempfile.mkdtemp(dir=driver / "shared") for _ in range(4)]
    assert [bool(own_folder(folder)) for folder in made] == [False, True, True, True]


def test_a_checkpoint_that_ends_with_the_driver_is_refused(driver: Path) -> None:
    for location in (os.path.abspath("checkpoint"), f"file://{driver}/work/checkpoint", tempfile.mkdtemp(dir=driver)):
        with pytest.raises(CheckpointError, match="no other driver could continue it"):
            check_kept(location)
    check_kept(str(driver / "shared" / "checkpoint"))


COMMAND = b'Launch Command: "java" "-Dodd=a\nb" "launcher.py"\n' + b"=" * 40 + b"\n\n"


def test_a_log_that_is_appended_to_is_cut_behind_the_command_by_which_its_driver_is_found(driver: Path) -> None:
    work = driver / "work"
    (work / "stdout").write_bytes(b"short\n")
    with open(work / "stderr", "ab") as written_by_the_worker:
        for lines in (b"old\n" * 100, b"new\n" * 100):
            written_by_the_worker.write((COMMAND if lines.startswith(b"old") else b"") + lines)
            written_by_the_worker.flush()
            keep_logs_small(200)
        written_by_the_worker.write(b"last\n")
    kept, head = (work / "stderr.1").read_bytes(), COMMAND.removesuffix(b"\n")
    assert kept.startswith(head), "a worker's page shows it first"
    assert kept.endswith(b"new\n")
    assert b"old" not in kept
    assert (work / "stderr").read_bytes() == head + b"last\n"
    assert [path.name for path in logs()] == ["stdout", "stderr"]
    assert not (work / "stdout.1").exists()


def test_nothing_else_is_cut(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, work = driver / "shared", driver / "work"
    (data / "stdout").write_bytes(b"x" * 300)
    (work / "stderr").symlink_to(data / "stdout")
    (work / "stdout").write_bytes(b"y" * 300)
    (work / "stdout.1").symlink_to(data / "stdout")
    (work / "stdout").chmod(0o600)
    monkeypatch.chdir(data)  # as a script may
    keep_logs_small(200)
    assert (data / "stdout").read_bytes() == b"x" * 300
    assert (work / "stdout").read_bytes() == b""
    kept = work / "stdout.1"
    assert (kept.is_symlink(), kept.read_bytes(), kept.stat().st_mode & 0o777) == (False, b"y" * 300, 0o600)


def test_the_logs_of_a_container_of_yarn_are_where_it_says(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (driver / "shared" / "stdout").write_bytes(b"x" * 300)
    monkeypatch.setenv("CONTAINER_ID", "container_1_0001_01_000001")
    monkeypatch.setenv("LOG_DIRS", f"{driver}/shared,/elsewhere")
    keep_logs_small(200)
    assert (driver / "shared" / "stdout").read_bytes() == b""
    assert (driver / "shared" / "stdout.1").read_bytes() == b"x" * 300

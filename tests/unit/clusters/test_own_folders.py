"""The folders of this user: private, and named when they cannot be used."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from airflow_stream_provider.clusters.own_folders import driver_folder, lock_folder, log_folder, take_lock
from airflow_stream_provider.lifecycle.errors import ClusterError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_they_are_private_whatever_the_umask(umask: int) -> None:
    before = os.umask(umask)
    try:
        for folder in (lock_folder(), log_folder("orders").parent.parent, driver_folder("orders").parent.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.parametrize("folder", [lambda: log_folder("orders"), lambda: take_lock("one")])
def test_one_that_cannot_be_used_is_named(home: Path, monkeypatch: pytest.MonkeyPatch, folder: object) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(home / "file"))
    with pytest.raises(ClusterError, match=r"file.* cannot be used for local drivers") as refused:
        folder()  # type: ignore[operator]
    assert "XDG_STATE_HOME" in refused.value.next_step


def test_locks_are_in_the_folder_that_ends_with_the_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock_folder().parent == home
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "runtime"))
    assert lock_folder().parent == home, "it is not there"
    (home / "runtime").mkdir()
    assert lock_folder().parent == home / "runtime"


def test_a_lock_is_held_until_all_who_inherit_it_have_ended() -> None:
    first = take_lock("one")
    assert first is not None
    assert take_lock("one") is None
    heir = os.dup(first)  # as a driver has it
    os.close(first)
    assert take_lock("one") is None
    os.close(heir)
    again = take_lock("one")
    assert again is not None
    os.close(again)

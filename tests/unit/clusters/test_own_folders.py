"""The folders of this user: private, and refused when somebody else could have a hand in them."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from airflow_stream_provider.clusters.own_folders import lock_folder, log_folder
from airflow_stream_provider.lifecycle.errors import ClusterError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_they_are_private_whatever_the_umask(umask: int) -> None:
    before = os.umask(umask)
    try:
        for folder in (lock_folder(), log_folder("orders"), log_folder("orders").parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_the_lock_folder_is_one_and_its_name_cannot_be_guessed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = lock_folder()
    assert lock_folder() == first
    assert stat.S_IMODE((home / "state" / "airflow-stream-provider" / "token").stat().st_mode) == 0o600
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "another user's"))
    assert lock_folder() != first


def test_a_folder_that_is_a_link_is_refused(home: Path) -> None:
    (home / "theirs").mkdir(mode=0o700)
    folder = lock_folder()
    folder.rmdir()
    folder.symlink_to(home / "theirs")
    with pytest.raises(ClusterError, match="it is a symbolic link"):
        lock_folder()


def test_a_folder_that_others_may_write_to_is_refused() -> None:
    lock_folder().chmod(0o777)
    with pytest.raises(ClusterError, match="others may write to it") as refused:
        lock_folder()
    assert refused.value.next_step


def test_a_folder_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    log_folder("orders")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ClusterError, match="it belongs to the user"):
        log_folder("orders")


def test_a_home_that_cannot_be_used_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    with pytest.raises(ClusterError, match="cannot be used for local drivers") as refused:
        lock_folder()
    assert "XDG_STATE_HOME" in refused.value.next_step

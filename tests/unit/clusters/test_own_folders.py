"""The folders of this user: private, and refused when somebody else could have a hand in them."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import stat
import tempfile
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from airflow_stream_provider.clusters.own_folders import lock_folder, log_folder, take_lock
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


def test_locks_are_in_the_folder_that_ends_with_the_machine_if_it_is_this_user_s(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = lock_folder()
    runtime = home / "runtime"
    for given in (str(runtime), "runtime", ""):
        monkeypatch.setenv("XDG_RUNTIME_DIR", given)
        assert lock_folder() == without
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    runtime.mkdir(mode=0o755)
    assert lock_folder() == without, "others see what is in it"
    runtime.chmod(0o700)
    assert lock_folder() == runtime / "airflow-stream-provider"
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: 12345)  # as after sudo, which may keep the variable
        with pytest.raises(ClusterError, match=f"{home}/state/airflow-stream-provider cannot be used"):
            lock_folder()


def test_a_lock_is_held_once_and_those_that_nobody_holds_are_removed() -> None:
    first, second = take_lock("one"), take_lock("two")
    assert first is not None
    assert second is not None
    assert take_lock("one") is None
    heir = os.dup(first)  # as a driver has it
    os.close(first)
    os.close(second)
    third = take_lock("three")
    assert sorted(each.name for each in lock_folder().iterdir()) == ["one", "three"]
    assert take_lock("one") is None
    os.close(heir)
    again = take_lock("one")
    assert again is not None
    for each in (third, again):
        assert each is not None
        os.close(each)


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    file, real, removed = lock_folder() / "one", fcntl.flock, list[Path]()

    def swept(handle: int, kind: int) -> None:
        if not removed:
            removed.append(file)
            file.unlink()
        real(handle, kind)

    monkeypatch.setattr(fcntl, "flock", swept)
    held = take_lock("one")
    assert held is not None
    assert os.path.samestat(os.fstat(held), file.stat())
    assert take_lock("one") is None
    os.close(held)


ROUNDS = 10


def contend(home: str, name: str, barrier: Barrier) -> None:
    """Take a lock in each round, beside another process that does, and hold it until both have tried."""
    os.environ["XDG_STATE_HOME"], tempfile.tempdir = f"{home}/state", home
    for number in range(ROUNDS):
        barrier.wait(60)
        held = take_lock("one")
        if held is not None:
            Path(home, f"won.{number}.{name}").touch()
        barrier.wait(60)
        if held is not None:
            os.close(held)


def sweep(home: str, name: str, barrier: Barrier) -> None:
    """Remove what nobody holds, again and again."""
    os.environ["XDG_STATE_HOME"], tempfile.tempdir = f"{home}/state", home
    for number in range(10**6):
        with suppress(FileNotFoundError):
            held = take_lock(f"{name}.{number % 3}")
            assert held is not None
            os.close(held)
        if barrier.broken:
            return


def test_of_two_that_race_while_a_third_sweeps_one_wins(home: Path) -> None:
    lock_folder()
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    racers = [spawn.Process(target=contend, args=(str(home), name, barrier)) for name in ("a", "b")]
    sweeper = spawn.Process(target=sweep, args=(str(home), "c", barrier))
    for process in (sweeper, *racers):
        process.start()
    for process in racers:
        process.join(120)
    barrier.abort()
    sweeper.join(60)
    assert [process.exitcode for process in (*racers, sweeper)] == [0, 0, 0]
    won = sorted(int(path.name.split(".")[1]) for path in home.glob("won.*"))
    assert won == list(range(ROUNDS))

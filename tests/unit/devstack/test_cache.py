import threading
from pathlib import Path

import pytest

from devstack.cache import once


def test_concurrent_callers_share_one_result(tmp_path: Path) -> None:
    made: list[Path] = []
    look_up_together = threading.Barrier(4)

    def make(folder: Path) -> None:
        (folder / "content").touch()
        made.append(folder)

    def ask() -> None:
        look_up_together.wait()
        assert (once(tmp_path / "set", make) / "content").exists()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_a_failure_leaves_nothing_and_the_next_call_starts_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        once(tmp_path / "set", fail)
    assert not (tmp_path / "set").exists()
    assert list(once(tmp_path / "set", lambda folder: None).iterdir()) == []


def test_incomplete_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    torn = tmp_path / ".set.abcdef"
    torn.mkdir()
    once(tmp_path / "set", lambda folder: None)
    assert not torn.exists()

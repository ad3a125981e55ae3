from __future__ import annotations

import os
from pathlib import Path

import pytest

from devstack.commits import CommitWatcher, crossing, largest_gap

# One commit a second, but for 2.5 s between batch 2 and 3, where the holder changed at 2.4.
COMMITS = {0: 0.0, 1: 1.0, 2: 2.0, 3: 4.5, 4: 5.5}


def test_the_gap_of_a_hand_over_is_last_commit_before_to_first_after() -> None:
    assert crossing(COMMITS, 2.4) == 2.5


@pytest.mark.parametrize("at", [-1.0, 5.5])
def test_there_is_no_gap_if_one_holder_never_committed(at: float) -> None:
    assert crossing(COMMITS, at) is None


def test_the_largest_gap_may_overlap_the_time_range() -> None:
    assert largest_gap(COMMITS, 2.4, 3.0) == 2.5
    assert largest_gap(COMMITS, 4.6, 5.0) == 1.0
    assert largest_gap({1: 3.0}, 0.0, 9.0) is None


def commit(folder: Path, batch: int, at: float) -> None:
    (folder / "commits").mkdir(parents=True, exist_ok=True)
    path = folder / "commits" / str(batch)
    path.write_text("v1\n{}")
    os.utime(path, (at, at))


def test_the_watcher_keeps_commits_that_spark_purges(tmp_path: Path) -> None:
    watcher = CommitWatcher({"enrich": tmp_path / "enrich", "totals": tmp_path / "totals"})
    watcher.look()
    assert watcher.commits == {"enrich": {}, "totals": {}}
    commit(tmp_path / "enrich", 0, 10.0)
    (tmp_path / "enrich" / "commits" / ".1.crc").write_text("")
    watcher.look()
    (tmp_path / "enrich" / "commits" / "0").unlink()
    commit(tmp_path / "enrich", 1, 11.0)
    with watcher:
        pass
    assert watcher.commits["enrich"] == {0: 10.0, 1: 11.0}

"""What the benchmarks make up is what the package accepts, and what they count is what they say."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.fold import follow
from airflow_stream_provider.lifecycle.state import StreamState
from benchmarks.checkpoint import Watch
from benchmarks.consumer import longest
from benchmarks.open_log import life
from benchmarks.results import spread
from benchmarks.sinks import per_batch
from benchmarks.storage_requests import logged


def test_the_log_whose_opening_is_measured_is_legal() -> None:
    state = StreamState()
    for seq, record in enumerate(itertools.islice(life(), 100), start=1):
        state = follow(state, record.numbered(seq, state.nonce))
    assert state.illegal_count == 0


def test_a_gap_belongs_to_the_window_in_which_it_ends() -> None:
    arrivals = [1.0, 1.0, 2.0, 4.5, 5.0, 9.0]
    assert [longest(arrivals, *window) for window in ((0.0, 3.0), (3.0, 6.0), (6.0, 10.0))] == [1.0, 2.5, 4.0]
    with pytest.raises(ValueError, match="empty"):
        longest(arrivals, 5.0, 8.0)


def test_percentiles_are_by_nearest_rank() -> None:
    found = spread([float(number) for number in range(1, 101)])
    assert [found[key] for key in ("n", "min", "p50", "p95", "p99", "max")] == [100, 1.0, 50.5, 95.0, 99.0, 100.0]
    assert spread([1.0, 2.0])["p99"] == 2.0


def test_requests_are_counted_in_a_log_of_moto() -> None:
    at = "127.0.0.1 - - [23/Nov/2026 04:00:00]"
    log = (
        f'{at} "PUT /streams/cp/offsets/1 HTTP/1.1" 200 -\n'
        f'{at} "\x1b[33mHEAD /streams/cp/commits/1 HTTP/1.1\x1b[0m" 404 -\n'
        f'{at} "GET /streams?list-type=2&prefix=cp%2F HTTP/1.1" 200 -\n'
        f'{at} "GET /streams/cp/offsets/1 HTTP/1.1" 200 -\n'
        " * Running on http://127.0.0.1:20001\n"
    )
    assert logged(log) == {"PUT": 1, "HEAD": 1, "LIST": 1, "GET": 1}


def test_statements_of_the_driver_are_counted_in_a_log_of_postgresql() -> None:
    driver, task = "stream sink: benchmark/ours, the benchmark|LOG:  ", "stream sink: task|LOG:  "
    log = (
        f"{driver}duration: 0.500 ms  parse <unnamed>: update stream_ledger set query_id = $1\n"
        f"{driver}duration: 0.250 ms  bind <unnamed>: update stream_ledger set query_id = $1\n"
        f"{driver}duration: 1.250 ms  execute <unnamed>: update stream_ledger set query_id = $1\n"
        f"{driver}DETAIL:  parameters: $1 = 'x'\n"
        f'{driver}duration: 3.000 ms  execute _pg3_0: insert into "ours" ("id") select "id" from "stream_staging_1"\n'
        f"{driver}duration: 4.000 ms  statement: COMMIT\n"
        f'{task}duration: 9.000 ms  statement: copy "stream_staging_1" from stdin\n'
    )
    assert per_batch(log, 2) == {"ledger": {"count": 1.0, "ms": 3.0}, "rows": {"count": 0.5, "ms": 1.5}}


def test_what_happens_to_files_is_told_by_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "known").mkdir()
    with contextlib.closing(Watch(tmp_path)) as watch:
        (tmp_path / "known" / "a").write_text("")
        (tmp_path / "known" / "a").rename(tmp_path / "known" / "b")
        (tmp_path / "known" / "b").chmod(0o600)
        (tmp_path / "known" / "b").unlink()
        (tmp_path / "new").mkdir()
        assert watch.count() == {"create": 1, "open": 1, "rename": 1, "chmod": 1, "delete": 1}
        (tmp_path / "new" / "c").write_text("")
        assert watch.count()["create"] == 2

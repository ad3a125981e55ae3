"""What the benchmarks make up is what the package accepts, and what they count is what they say."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.fold import follow
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamState
from benchmarks import results, runbook, storage_clone
from benchmarks.consumer import longest
from benchmarks.open_log import life
from benchmarks.results import spread
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


def test_a_target_that_is_missed_is_told_and_fails_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    slow = {"fast (s)": (1.0, "<=", 2.0), "faster (s)": (30.0, "<=", 10.0), "ratio": (3.0, ">=", 5.0)}
    results.show("a benchmark", {}, slow)
    told = [line for line in capsys.readouterr().out.splitlines() if "met" in line or "missed" in line]
    assert [("missed" if "missed" in line else "met") for line in told] == ["met", "missed", "missed"]


def test_the_clone_may_take_longer_than_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(storage_clone, "session", contextlib.nullcontext)
    monkeypatch.setattr(sys, "argv", ["storage_clone"])
    slow = {"clone": [60.0], "plain": [90.0]}
    monkeypatch.setattr(storage_clone, "measured", lambda spark, kind, rounds: (slow, "links"))
    assert storage_clone.main() == 0
    assert json.loads((tmp_path / "build/bench/storage_clone.json").read_text())["plain_to_clone"]["hdfs"] == 1.5


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


def test_what_an_upgrade_takes_is_split_between_stream_and_airflow() -> None:
    at = {"declared": 9.0, "submitted": 10.0, "standby": 40.0, "requested": 45.0, "ready": 45.5, "acquired": 46.0}
    records = [Record(kind, at=seconds) for kind, seconds in at.items()]
    assert runbook.stream_seconds(records, 30.0) == {"driver and rehearsal": 30.0, "hand-over": 1.0, "soak": 30.0}
    times = {"check": ("00", "04"), "submit": ("06", "40"), "roll_back": (None, None)}
    tasks = [
        {
            "task_id": name,
            "start_date": start and f"1970-01-01T00:00:{start}Z",
            "end_date": end and f"1970-01-01T00:00:{end}Z",
        }
        for name, (start, end) in times.items()
    ]
    assert runbook.task_seconds(tasks, -1.0) == {
        "check": {"after": 1.0, "took": 4.0},
        "submit": {"after": 2.0, "took": 34.0},
    }

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from airflow_stream_provider.lag import guarded_reads
from airflow_stream_provider.lag.guarded_reads import (
    MOST_HANGING,
    SLOW_SECONDS,
    WIDTH,
    GuardedReads,
    NotReached,
    ReadHangs,
)


def test_each_place_has_its_own_answer() -> None:
    reads: GuardedReads[str, int] = GuardedReads()
    found = reads.run({"one": lambda: 1, "bad": lambda: 1 // 0, "two": lambda: 2}, 60.0)
    assert (found["one"], found["two"], type(found["bad"])) == (1, 2, ZeroDivisionError)


def test_reads_that_hang_delay_no_other_and_are_not_tried_again_before_they_return() -> None:
    """More of them than run side by side."""
    go = threading.Event()
    tried: list[int] = []

    def hang(number: int) -> int:
        tried.append(number)
        go.wait(60)
        return number

    reads: GuardedReads[int, int] = GuardedReads()
    places = {number: (lambda number=number: hang(number)) for number in range(2 * WIDTH)}
    for _ in range(2):
        found = reads.run({**places, 99: lambda: 99}, 5 * SLOW_SECONDS)
        assert found[99] == 99
        assert {type(found[number]) for number in places} == {ReadHangs}
        assert sorted(tried) == sorted(places)
    go.set()
    until = time.monotonic() + 60
    while reads._running:
        assert time.monotonic() < until
        time.sleep(0.01)
    found = reads.run(places, 60.0)
    assert found == {number: number for number in places}


def test_no_more_threads_hang_than_are_allowed() -> None:
    go = threading.Event()
    reads: GuardedReads[int, bool] = GuardedReads()
    for number in range(MOST_HANGING):
        reads._start(number, {number: lambda: go.wait(60)}, {})
    found = reads.run({"one more": lambda: True}, 0.2)  # type: ignore[dict-item]
    go.set()
    assert {type(each) for each in found.values()} == {NotReached}


def test_what_there_was_no_time_for_does_not_hang_and_what_was_begun_gets_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarded_reads, "STALLED_SECONDS", 600.0)
    reads: GuardedReads[str, int] = GuardedReads(1)
    found = reads.run({"slow": lambda: time.sleep(0.6) or 1, "next": lambda: 2}, 0.2, 60.0)
    assert (found["slow"], type(found["next"])) == (1, NotReached)


def test_the_time_in_which_the_process_itself_stands_still_counts_against_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it does on a machine that is suspended, or too busy to run it."""
    stood_still, noticed = [0.0], threading.Event()
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + stood_still[0])
    reads: GuardedReads[str, int] = GuardedReads()
    wait = reads._wait

    def waited(now: float, seconds: float) -> float:
        late = wait(now, seconds)
        if late > 50.0:
            noticed.set()
        return late

    def read() -> int:
        stood_still[0] = 100.0
        return int(noticed.wait(60))

    monkeypatch.setattr(reads, "_wait", waited)
    assert reads.run({"one": read}, 5.0, 4.0) == {"one": 1}


def test_a_read_that_hangs_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    program = (
        "import os, sys; from airflow_stream_provider.lag.guarded_reads import GuardedReads\n"
        "os.mkfifo(sys.argv[1])\n"
        "print(type(GuardedReads().run({0: lambda: open(sys.argv[1]).read()}, 0.2)[0]).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "dead")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("ReadHangs", 0), done.stderr[-500:]

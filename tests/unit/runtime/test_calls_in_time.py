"""Calls that hang are given up, and none is made after them until they have ended."""

from __future__ import annotations

import threading

import pytest

from airflow_stream_provider.runtime.calls_in_time import CallsInTime


def test_a_call_returns_or_raises_as_if_it_were_made_here() -> None:
    calls = CallsInTime("test")
    assert calls.do(lambda: 7, "it", 60.0) == 7
    with pytest.raises(TimeoutError, match="of its own"):
        calls.do(lambda: (_ for _ in ()).throw(TimeoutError("of its own")), "it", 60.0)
    assert calls.do(threading.current_thread, "it", 60.0).name == "test"


def test_threads_are_used_again_and_calls_run_side_by_side() -> None:
    calls = CallsInTime("test")
    assert len({calls.do(threading.get_ident, "it", 60.0) for _ in range(20)}) == 1
    both = threading.Barrier(2)
    other = threading.Thread(target=lambda: calls.do(lambda: both.wait(60), "it", 60.0))
    other.start()
    calls.do(lambda: both.wait(60), "it", 60.0)
    other.join()


def test_while_a_call_hangs_the_next_ones_fail_at_once() -> None:
    calls, go_on, made = CallsInTime("test"), threading.Event(), list[int]()
    with pytest.raises(TimeoutError, match="has not answered for 0 s") as caught:
        calls.do(lambda: go_on.wait(60), "hdfs://n/a", 0.1)
    assert caught.value.filename == "hdfs://n/a"
    with pytest.raises(TimeoutError, match="an earlier question"):
        calls.do(lambda: made.append(1), "hdfs://n/b", 3600.0)
    assert made == []
    go_on.set()
    ended = threading.Event()
    while not ended.is_set():
        try:
            calls.do(ended.set, "hdfs://n/b", 60.0)
        except TimeoutError:
            continue
    assert ended.is_set()

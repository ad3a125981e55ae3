from __future__ import annotations

import gc
import threading

import pytest

from airflow_stream_provider.lag.gc_pause import gc_paused


def test_it_is_paused_until_the_last_thread_leaves_whatever_happens() -> None:
    inside, leave = threading.Event(), threading.Event()

    @gc_paused()
    def stay() -> None:
        inside.set()
        leave.wait(60)

    @gc_paused()
    def fail() -> None:
        other.start()
        inside.wait(60)
        raise ZeroDivisionError

    other = threading.Thread(target=stay)
    with pytest.raises(ZeroDivisionError):
        fail()
    assert not gc.isenabled()
    leave.set()
    other.join(60)
    assert gc.isenabled()


def test_who_has_no_collector_does_not_get_one() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

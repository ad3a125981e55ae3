from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time

import pytest

from airflow_stream_provider.control.daemon_thread import DaemonThread, in_daemon_thread


def test_calls_run_one_after_another_in_one_thread_of_its_own() -> None:
    thread = DaemonThread("lag-test")
    names = [thread.submit(lambda: threading.current_thread().name) for _ in range(3)]
    assert {each.result(30) for each in names} == {"lag-test"}
    thread.shutdown()


def test_an_error_is_raised_where_the_result_is_awaited_and_ends_nothing() -> None:
    thread = DaemonThread("lag-test")
    bad = thread.submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        bad.result(30)
    assert thread.submit(max, 1, 2).result(30) == 2
    thread.shutdown()


def test_calls_that_were_submitted_run_before_the_thread_ends() -> None:
    thread, go = DaemonThread("lag-ending"), threading.Event()
    first, cancelled, last = thread.submit(go.wait, 30), thread.submit(max, 1, 2), thread.submit(max, 3, 4)
    cancelled.cancel()
    thread.shutdown()
    go.set()
    assert (first.result(30), last.result(30), cancelled.cancelled()) == (True, 4, True)
    for each in threading.enumerate():
        if each.name == "lag-ending":
            each.join(30)
            assert not each.is_alive()


def test_a_call_that_hangs_does_not_keep_the_process_alive() -> None:
    program = (
        "import threading; from airflow_stream_provider.control.daemon_thread import DaemonThread\n"
        "DaemonThread('hangs').submit(threading.Event().wait)\n"
        "print('ends')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("ends", 0), done.stderr[-500:]


def test_an_event_loop_waits_for_a_call_in_a_thread_of_its_own() -> None:
    named = contextvars.ContextVar("named", default="")

    async def calls() -> tuple[str, str]:
        named.set("as in the loop")
        return await in_daemon_thread("lag-test", lambda: (threading.current_thread().name, named.get()))

    assert asyncio.run(calls()) == ("lag-test", "as in the loop")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_daemon_thread("lag-test", lambda: 1 // 0))


def test_a_call_that_hangs_keeps_no_event_loop_from_closing() -> None:
    hangs = threading.Event()

    async def calls() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(in_daemon_thread("lag-hangs", hangs.wait, 60), 0.2)

    began = time.monotonic()
    asyncio.run(calls())  # waits for the threads of the loop's own pool
    assert time.monotonic() - began < 30
    hangs.set()
    for each in threading.enumerate():
        if each.name == "lag-hangs":
            each.join(30)
            assert not each.is_alive()

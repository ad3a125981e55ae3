"""Calls that hang, beside others that must not wait for them, each until a test lets it go on."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.control import bounded
from airflow_stream_provider.control.bounded import NoAnswer, NotReached, OnePlace, call, gather, start
from airflow_stream_provider.lifecycle.errors import StreamError
from tests.support.dead_mount import LONG, SOON, Dead

NAMED = contextvars.ContextVar("named", default="")


@pytest.fixture
def clock(dead: Dead, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A time that passes for `gather` only while all that runs hangs: no machine is too slow for that."""
    found = SimpleNamespace(now=0.0)
    hang, others = list[Future[Any]](), list[Future[Any]]()

    def begin(fn: Callable[[], Any], name: str) -> Future[Any]:
        future = start(fn, name)
        (hang if getattr(fn, "func", fn) == dead.read else others).append(future)
        return future

    def wait_for(futures: Collection[Future[Any]], now: float, seconds: float) -> float:
        wait(futures, 0.01, FIRST_COMPLETED)
        if all(each.done() for each in others) and len(dead.tried) == len(hang):
            found.now += max(seconds, 0.01)
        return 0.0

    monkeypatch.setattr(bounded, "start", begin)
    monkeypatch.setattr(bounded, "_stood_still", wait_for)
    monkeypatch.setattr(bounded, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


def no_thread(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the machine have no thread of this name."""
    begin = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if name in thread.name:
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


# -- one call --------------------------------------------------------------------------------------------------------


def test_a_call_returns_and_raises_as_if_it_were_made_here() -> None:
    assert call(lambda: 7, LONG, "It") == 7
    with pytest.raises(TimeoutError, match="of its own"):
        call(lambda: (_ for _ in ()).throw(TimeoutError("of its own")), LONG, "It")
    with pytest.raises(SystemExit):
        call(sys.exit, LONG, "It")


def test_a_call_sees_the_context_of_its_caller_in_a_thread_that_is_known_for_one_of_ours() -> None:
    def seen() -> tuple[str, str, bool]:
        thread = threading.current_thread()
        return NAMED.get(), thread.name, thread.daemon

    token = NAMED.set("as here")
    place = OnePlace("place")
    found = [call(seen, LONG, "one"), gather({"many": seen}, LONG)["many"], place.call(seen, LONG, "It")]
    NAMED.reset(token)
    place.close()
    assert found == [("as here", f"airflow-stream-{name}", True) for name in ("one", "many", "place")]


def test_a_call_that_hangs_is_given_up_with_an_error_that_says_what_it_is(dead: Dead) -> None:
    with pytest.raises(NoAnswer) as caught:
        call(dead.read, SOON, "The cluster", "Look at it.")
    assert str(caught.value) == "The cluster has not answered for 0 s. Look at it."


def test_without_a_thread_a_call_has_failed_and_the_others_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    no_thread(monkeypatch, "prices")
    with pytest.raises(RuntimeError, match="can't start new thread"):
        call(lambda: 7, LONG, "prices")
    found = gather({"prices": lambda: 1, "orders": lambda: 2}, LONG)
    assert (type(found["prices"]), found["orders"]) == (RuntimeError, 2)


def test_an_event_loop_waits_for_a_call_and_closes_though_it_hangs(dead: Dead) -> None:
    async def calls() -> int:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(start(dead.read, "it")), SOON)
        return await asyncio.wrap_future(start(lambda: 7, "it"))

    assert asyncio.run(calls()) == 7
    assert not dead.mended.is_set(), "the loop waits for the threads of its own pool only"


@pytest.mark.parametrize(
    "act", ["call(hang, 0.1, 'It')", "OnePlace('it').call(hang, 0.1, 'It')", "raise gather({0: hang}, 0.1)[0]"]
)
def test_a_call_that_hangs_does_not_keep_the_process_alive(act: str) -> None:
    program = (
        "import threading; from airflow_stream_provider.control.bounded import *\n"
        f"hang = threading.Event().wait\ntry:\n    {act}\nexcept NoAnswer:\n    print('ends')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout.strip(), done.returncode) == ("ends", 0), done.stderr[-500:]


# -- many calls ------------------------------------------------------------------------------------------------------


def test_each_of_many_has_its_own_answer_in_the_given_order() -> None:
    found = gather({"one": lambda: 1, "bad": lambda: 1 // 0, "left": sys.exit, "two": lambda: 2}, LONG)
    assert list(found) == ["one", "bad", "left", "two"]
    assert (found["one"], type(found["bad"]), found["two"]) == (1, ZeroDivisionError, 2)
    assert "It has ended with SystemExit" in str(found["left"])


def test_what_hangs_delays_no_other_and_is_not_tried_again_before_it_has_ended(
    dead: Dead, clock: SimpleNamespace
) -> None:
    """More than run side by side."""
    left: dict[Any, Future[Any]] = {}
    places: dict[int, Callable[[], Any]] = {each: partial(dead.read, each) for each in range(2 * bounded.WIDTH)}
    for _ in range(2):
        found = gather({**places, 99: lambda: 99}, 60.0, left=left)
        assert found[99] == 99
        assert {type(found[number]) for number in places} == {NoAnswer}
        assert sorted(dead.tried) == sorted(places) == sorted(left)
    assert clock.now < 120.0, "of what is left behind nothing is waited for"
    dead.mended.set()
    wait(left.values(), LONG)
    assert gather(places, 60.0, left=left) == {number: number for number in places}


def test_no_more_hang_than_are_allowed_and_of_the_others_nothing_is_known(dead: Dead, clock: SimpleNamespace) -> None:
    left: dict[Any, Future[Any]] = {}
    reads = {number: partial(dead.read, number) for number in range(9)}
    for _ in range(2):
        found = gather(reads, 60.0, width=2, most=3, left=left)
        assert [type(each) for each in found.values()] == 3 * [NoAnswer] + 6 * [NotReached]
    assert sorted(dead.tried) == [0, 1, 2]


def test_each_is_waited_for_no_longer_than_its_time(dead: Dead, clock: SimpleNamespace) -> None:
    found = gather({"dead": dead.read, "well": lambda: 1}, 3600.0, 4.0)
    assert found["well"] == 1
    assert str(found["dead"]).startswith("It could not be read within 4 s: its folder does not answer.")
    assert 4.0 < clock.now < 3600.0


def test_what_was_begun_gets_its_time_and_what_was_not_does_not_hang(clock: SimpleNamespace) -> None:
    def slow() -> int:
        clock.now += 5.0
        return 1

    found = gather({"slow": slow, "next": lambda: 2}, 2.0, 60.0, width=1)
    assert (found["slow"], type(found["next"])) == (1, NotReached)


def test_the_time_in_which_the_process_itself_stands_still_counts_against_no_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it does on a machine that is suspended, or too busy to run it."""
    stood_still, noticed = [0.0], threading.Event()
    clock, waited = time.monotonic, bounded._stood_still
    monkeypatch.setattr(bounded, "time", SimpleNamespace(monotonic=lambda: clock() + stood_still[0]))

    def note(*args: Any) -> float:
        late = waited(*args)
        if late > 500.0:
            noticed.set()
        return late

    def read() -> int:
        noticed.clear()
        stood_still[0] += 1000.0
        return int(noticed.wait(LONG))

    monkeypatch.setattr(bounded, "_stood_still", note)
    assert gather({"one": read}, 100.0, 90.0) == {"one": 1}
    assert call(read, 100.0, "It") == 1


# -- one place -------------------------------------------------------------------------------------------------------


def test_calls_to_one_place_are_made_in_order_in_one_thread_that_is_used_again() -> None:
    place, made = OnePlace("lag-ending"), list[int]()
    threads = {place.call(threading.current_thread, LONG, "It") for _ in range(20)}
    go = threading.Event()
    first = place.submit(partial(go.wait, LONG))
    later = [place.submit(partial(made.append, number)) for number in range(3)]
    later[1].cancel()
    bad = place.submit(lambda: 1 // 0)
    place.close()
    go.set()
    with pytest.raises(ZeroDivisionError):
        bad.result(LONG)
    assert (first.result(LONG), made) == (True, [0, 2])
    (thread,) = threads
    thread.join(LONG)
    assert not thread.is_alive()


def test_as_many_calls_to_one_place_are_under_way_as_it_is_wide() -> None:
    both, place = threading.Barrier(2), OnePlace("wide", 2)
    asked = [place.submit(partial(both.wait, LONG)) for _ in range(6)]
    assert not wait(asked, LONG).not_done
    assert sum(thread.name == "airflow-stream-wide" for thread in threading.enumerate()) == 2
    place.close()


def test_a_call_that_was_given_up_before_its_turn_is_never_made(dead: Dead) -> None:
    place = OnePlace("place")
    first = place.submit(dead.read)
    with pytest.raises(NoAnswer, match=r"^The log has not answered for 0 s\.$"):
        place.call(partial(dead.read, "late"), SOON, "The log")
    assert not place.hangs(), "it has not begun"
    dead.mended.set()
    first.result(LONG)
    place.call(partial(dead.read, "next"), LONG, "The log")
    assert dead.tried == [0, "next"]
    place.close()


def test_a_place_says_that_a_call_hangs_until_it_has_ended(dead: Dead) -> None:
    place = OnePlace("place", 2)
    assert not place.hangs()
    begun = threading.Event()

    def hang() -> None:
        begun.set()
        dead.read()

    while not begun.is_set():
        with pytest.raises(NoAnswer):
            place.call(hang, SOON, "It")
    assert place.hangs()
    assert place.call(lambda: 7, LONG, "It") == 7
    dead.mended.set()
    while place.hangs():
        time.sleep(0.01)
    place.close()


def test_no_answer_is_an_error_of_this_package() -> None:
    assert issubclass(NoAnswer, StreamError)
    assert issubclass(NotReached, StreamError)

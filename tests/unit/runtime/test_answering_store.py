"""A store behind a deadline. tests/integration has a file system that really hangs."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control import bounded
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SeqTaken
from airflow_stream_provider.runtime.places import AnsweringStore
from tests.support.simulation.memory_store import MemoryStore
from tests.support.story import NEW, OLD

SOON, NEVER = 0.2, 3600.0


class Holds(MemoryStore):
    """Its next create waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.did: list[int] = []

    def create(self, seq: int, data: bytes) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        super().create(seq, data)
        self.did.append(seq)


def test_it_answers_as_the_store_does(tmp_path: Path) -> None:
    make_root(tmp_path.as_uri())
    below = FilesStore(tmp_path / "orders")
    below.initialise()
    store = AnsweringStore(below, NEVER)
    store.create(1, b"one")
    store.put_heartbeat(OLD, b"{}")
    store.put_topic_ids(b"ids")
    store.put_saved_state(b"a state")
    assert (store.read(1), store.read(2), store.heartbeat(OLD), store.heartbeat(NEW)) == (b"one", None, b"{}", None)
    assert (store.next_number(0), store.next_number(1)) == (1, None)
    assert (store.heartbeats(), store.saved_state()) == ([OLD], b"a state")
    assert store.topic_ids() == b"ids"
    assert store.origin() == below.origin() == "", "the first record is none"
    with pytest.raises(SeqTaken):
        store.create(1, b"other")


def test_a_call_that_was_given_up_before_its_turn_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    below = Holds()

    def wait_for_one_that_has_begun(calls: Collection[Future[Any]], seconds: float) -> Any:
        assert below.begun.wait(60), "the first one has its turn before it is given up"
        return wait(calls, seconds)

    monkeypatch.setattr(bounded, "wait", wait_for_one_that_has_begun)
    store = AnsweringStore(below, SOON)
    for seq in (1, 2):
        with pytest.raises(ControlUnavailable, match=r"^The control log has not answered for 0 s\. Check its"):
            store.create(seq, b"")
    below.go_on.set()
    store._seconds = NEVER
    store.create(3, b"")
    assert below.did == [1, 3]

"""Claims of checkpoints in a topic: of those that nobody has removed, the first counts, compacted or not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from airflow_stream_provider.control import owners as control_owners
from airflow_stream_provider.control.owners import TopicOwners
from airflow_stream_provider.lifecycle.errors import (
    CheckpointError,
    ControlLogReplaced,
    ControlUnavailable,
    StreamError,
)
from devstack.drivers import wait_for
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic

PLACE = "hdfs://nn:9820/a"


@pytest.fixture
def log() -> SimulatedLog:
    return SimulatedLog()


def owners(log: SimulatedLog) -> TopicOwners:
    return TopicOwners(lambda: SimulatedTopic(log))


def keys(log: SimulatedLog) -> list[bytes]:
    return [message.key or b"" for message in log.messages]


def test_nothing_is_asked_before_the_first_question() -> None:
    opened: list[str] = []
    TopicOwners(lambda: opened.append("opened") or SimulatedTopic(SimulatedLog()))
    assert opened == []


def test_the_first_claim_wins_and_others_read_its_name(log: SimulatedLog) -> None:
    one, two = owners(log), owners(log)
    assert one.owner(PLACE) is None
    assert one.claim(PLACE, "orders") == "orders"
    assert two.claim(PLACE, "others") == "orders"
    assert two.owner(PLACE) == one.owner(PLACE) == "orders"
    assert two.claim(f"{PLACE}/b", "others") == "others"
    assert len(log.messages) == 2, "who finds an owner writes nothing"
    assert json.loads(log.messages[0].value or b"") == {"stream": "orders", "location": PLACE}


class Late(SimulatedTopic):
    """It reads as before another one has written, once: both have seen no claim."""

    def __init__(self, log: SimulatedLog, other: TopicOwners) -> None:
        super().__init__(log)
        self.other = other

    def write(self, key: bytes, value: bytes | None, headers: object) -> int:
        self.other.claim(PLACE, "first")
        return super().write(key, value, {})


def test_of_two_that_saw_none_the_first_in_the_topic_wins(log: SimulatedLog) -> None:
    first = owners(log)
    second = TopicOwners(lambda: Late(log, first))
    assert second.claim(PLACE, "second") == "first"
    assert first.claim(PLACE, "first") == owners(log).owner(PLACE) == "first"
    assert len(log.messages) == 2


@pytest.mark.parametrize("compact", [False, True])
def test_a_claim_that_a_person_removes_is_none(log: SimulatedLog, compact: bool) -> None:
    first = owners(log)
    second = TopicOwners(lambda: Late(log, first))
    second.claim(PLACE, "second")
    assert first.owner(PLACE) == "first"
    kept = first.kept_in(PLACE)
    assert all(key.decode() in kept for key in keys(log)), "the next one counts when the first is removed"
    for key, left in zip(keys(log)[:2], ("second", None), strict=True):
        log.append(key, None, {})
        assert first.owner(PLACE) == owners(log).owner(PLACE) == left
        if compact:
            log.compact(log.end, tombstones=True)
            assert first.owner(PLACE) == owners(log).owner(PLACE) == left
    assert first.claim(PLACE, "third") == "third"


class Removing(SimulatedTopic):
    """A person removes each claim at once."""

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        super().write(key, value, headers)
        return super().write(key, None, {})


def test_a_claim_that_is_removed_while_it_is_made_is_none(log: SimulatedLog) -> None:
    with pytest.raises(
        CheckpointError, match=r"The claim owner/\S+ in .* was removed while it was made\. .* try again"
    ):
        TopicOwners(lambda: Removing(log)).claim(PLACE, "orders")


@pytest.mark.parametrize(
    "content", ["", "x" * 2**17, "{}", "[1]", '{"stream": "orders", "location": "hdfs://other/a"}']
)
def test_a_damaged_claim_is_nobodys(log: SimulatedLog, content: str) -> None:
    owners(log).claim(PLACE, "orders")
    (claim,) = log.messages
    log.begin()
    log.append(claim.key or b"", content.encode(), {})
    mine = owners(log)
    for ask in (mine.owner, lambda place: mine.claim(place, "orders")):
        with pytest.raises(CheckpointError, match="does not name the stream") as found:
            ask(PLACE)
        assert "docs/control.md" in found.value.next_step


def test_what_else_is_in_the_topic_is_passed_over(log: SimulatedLog) -> None:
    for key in (b"root", b"seen/orders", b"owner/x/y", b"\xff"):
        log.append(key, b"-", {})
    assert owners(log).owner(PLACE) is None


def test_a_topic_that_was_made_anew_takes_no_claim(log: SimulatedLog) -> None:
    mine = owners(log)
    mine.claim(PLACE, "orders")
    log.begin()
    with pytest.raises(ControlLogReplaced):
        mine.claim(f"{PLACE}/b", "orders")


def test_a_reader_of_an_end_that_was_lost_reads_on_like_whoever_comes_now(log: SimulatedLog) -> None:
    """Found by a review: it took the topic for damaged until its driver ended."""
    one = owners(log)
    for number in range(3):
        assert one.claim(f"{PLACE}/{number}", "orders") == "orders"
    del log.messages[1:]
    log.end = 1
    for reader in (one, owners(log)):
        assert [reader.owner(f"{PLACE}/{number}") for number in range(3)] == ["orders", None, None]
    assert owners(log).claim(f"{PLACE}/1", "others") == "others"
    assert one.claim(f"{PLACE}/1", "orders") == "others", "the first one wins"


def test_of_many_questions_that_come_together_one_is_asked_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes the seconds of a time-out, and a driver that holds is neither stopped nor relieved meanwhile."""
    asked: list[str] = []
    came: list[float] = []

    def comes() -> float:
        came.append(time.monotonic())
        return came[-1]

    def opens() -> SimulatedTopic:
        asked.append("open")
        wait_for("all to come", lambda: len(came) >= 5, 60)
        raise ControlUnavailable("The brokers have not answered.", next_step="Check them.", broker="kafka:9092")

    monkeypatch.setattr(control_owners, "time", SimpleNamespace(monotonic=comes))
    mine = TopicOwners(opens)
    said: list[StreamError] = []

    def ask(number: int) -> None:
        with pytest.raises(ControlUnavailable, match=r"The brokers have not answered\. Check them") as caught:
            mine.claim(f"{PLACE}/{number}", "orders")
        said.append(caught.value)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert (len(said), asked) == (5, ["open"])
    assert [error.fields for error in said] == [{"broker": "kafka:9092"}] * 5
    with pytest.raises(ControlUnavailable):
        mine.owner(PLACE)
    assert asked == ["open", "open"], "who comes later asks again"

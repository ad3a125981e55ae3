"""How the records at which a batch fails are found. Spark is pretended; tests/integration/runtime has real runs."""

from __future__ import annotations

import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import boundary
from airflow_stream_provider.checkpoint.logs import read_offsets
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.runtime import bad_records, clone_runs
from airflow_stream_provider.runtime.bad_records import (
    GOES_WELL,
    MORE,
    MOST_FOUND,
    NO_BATCH,
    NO_KAFKA,
    TOGETHER,
    WITHOUT_SINK,
    BadRecords,
    failing,
)
from devstack import checkpoint_trees as trees


@pytest.mark.parametrize("seed", range(30))
def test_exactly_the_bad_ones_are_found(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 5000)
    bad = sorted({chance.randrange(count) for _ in range(chance.randrange(6))})
    runs = []

    def fails(low: int, high: int) -> bool:
        runs.append((low, high))
        return any(low <= each < high for each in bad)

    assert [*failing(count, fails)] == [(each, each + 1) for each in bad]
    assert len(runs) <= (len(bad) + 1) * (count.bit_length() + 2)


def test_what_fails_only_together_is_said_so() -> None:
    assert [*failing(100, lambda low, high: low <= 20 and high > 70)] == [(0, 100)]


class Spark:
    """Runs on clones: a batch fails that reads one of the bad offsets of orders-0, or of orders-1."""

    def __init__(self, *bad: tuple[int, int], error: str = "ValueError: no number") -> None:
        self.bad, self.error, self.stopped = bad, error, 0
        self.trigger: dict[str, Any] = {}

    def start(self, writer: Any) -> Any:
        clone = Path(writer.checkpoint)
        ends = boundary(clone)
        assert ends.offsets is not None
        assert not ends.completed
        read = [read_offsets(clone / "offsets" / str(each)).sources["0"] for each in (ends.offsets - 1, ends.offsets)]
        begin, end = (trees_of(text) for text in read)

        def wait(seconds: int) -> bool:
            if any(begin[part] <= offset < end[part] for part, offset in self.bad):
                raise RuntimeError(self.error)
            return True

        return SimpleNamespace(awaitTermination=wait, stop=self.stop)

    def stop(self) -> None:
        self.stopped += 1


def trees_of(text: str | None) -> dict[int, int]:
    from airflow_stream_provider.checkpoint.logs import kafka_offsets

    return dict((kafka_offsets(text) or {})["orders"])


class Writer:
    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint

    def trigger(self, *, once: bool) -> Writer:
        assert once
        return self

    def format(self, name: str) -> Writer:
        assert name == "noop"
        return self


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A query that has planned its batch 6, of 1,000 records, and not committed it."""
    root = trees.new(tmp_path / "live")
    trees.start(root, "0", trees.kafka(orders={0: 0, 1: 0}))
    for batch in range(7):
        trees.plan(root, batch, trees.kafka(orders={0: batch * 100, 1: 50 if batch < 6 else 950}))
    for batch in range(6):
        trees.commit(root, batch)
    return root


def search(root: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch, sink: str = "kafka") -> dict[str, Any]:
    runs = clone_runs.CloneRuns(SimpleNamespace(hide=lambda identity: None), Policy(find=True))  # type: ignore[arg-type]
    runs.deadline = time.monotonic() + 10_000
    monkeypatch.setattr(bad_records, "start_ungated", spark.start)
    monkeypatch.setattr(bad_records, "rehearsal_writer", lambda writer, clone: Writer(clone))
    spec = SimpleNamespace(sink=sink, foreach_batch=None)
    query: Any = SimpleNamespace(checkpoint=str(root), label="enrich", writer=None, writer_spec=spec)
    said: list[str] = []
    folder = root.with_name("clones")
    found = BadRecords(runs, query, folder, 10**9, said.append).find()
    assert not folder.exists()
    assert spark.stopped == found["runs"]
    return found


def test_two_bad_records_of_a_thousand_are_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(root, Spark((0, 599), (1, 50)), monkeypatch)
    assert found["bad"] == ["orders-0@599", "orders-1@50"]
    assert (found["batch"], found["records"]) == (6, 1000)
    assert found["error"] == "ValueError: no number"
    assert found["runs"] < 35
    assert not found["note"]


def test_a_batch_that_goes_well_without_its_sink_says_what_was_not_seen(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search(root, Spark(), monkeypatch)["note"] == WITHOUT_SINK
    assert search(root, Spark(), monkeypatch, sink="noop")["note"] == GOES_WELL


def test_so_many_bad_records_are_no_bad_records(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(root, Spark(*((0, each) for each in range(500, 600))), monkeypatch)
    assert (len(found["bad"]), found["note"]) == (MOST_FOUND, MORE)


def test_records_that_kafka_has_lost_are_not_taken_for_bad_ones(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(root, Spark((0, 500), error="KAFKA_DATA_LOSS"), monkeypatch)
    assert found["bad"] == []
    assert "Kafka does not show the records" in found["note"]


def test_without_a_planned_batch_nothing_is_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.plan(root, 6, trees.kafka(orders={0: 500, 1: 50}))
    assert search(root, Spark(), monkeypatch)["note"] == NO_KAFKA
    trees.commit(root, 6)
    assert search(root, Spark(), monkeypatch) == {
        "bad": [],
        "note": NO_BATCH,
        "runs": 0,
        "doubt": bad_records.LOOKED_ONLY,
    }


def test_the_first_batch_of_all_is_searched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = trees.new(tmp_path / "live")
    trees.start(root, "0", trees.kafka(orders={0: 5, 1: 0}))
    trees.plan(root, 0, trees.kafka(orders={0: 9, 1: 3}))
    begun: list[bytes] = []

    class First(Spark):
        def start(self, writer: Any) -> Any:
            clone = Path(writer.checkpoint)
            begin = trees_of((clone / "sources" / "0" / "0").read_bytes().rpartition(b"\n")[2].decode())
            end = trees_of(read_offsets(clone / "offsets" / "0").sources["0"])
            begun.append((clone / "sources" / "0" / "0").read_bytes())

            def wait(seconds: int) -> bool:
                if begin[0] <= 7 < end[0]:
                    raise RuntimeError("bad")
                return True

            return SimpleNamespace(awaitTermination=wait, stop=self.stop)

    assert search(root, First(), monkeypatch)["bad"] == ["orders-0@7"]
    assert all(each.startswith(b"\0v1\n{") for each in begun)
    assert TOGETHER

"""One read of many targets; measuring itself is in test_measure.py."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.control.bounded import NoAnswer
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.kafka.answers import Answers
from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.reader import LagReader, LagUnmeasured
from airflow_stream_provider.lag.report import LagReport, QueryLag
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import StreamError
from tests.support.control_root import new_log
from tests.support.more_time import in_time
from tests.support.story import OLD, RUNNING, write

Committeds = Mapping[LagTarget, Iterable[Committed]]


class Client:
    def topics(self, names: Iterable[str]) -> Answers[str, Any]:
        return Answers()

    def groups_offsets(self, groups: Iterable[str]) -> Answers[str, dict[Any, int]]:
        found: Answers[str, dict[Any, int]] = Answers()
        found.update({group: {} for group in groups})
        return found


def measured(client: Any, asked: Committeds, moments: Mapping[LagTarget, Moments]) -> dict[LagTarget, LagReport]:
    assert asked.keys() <= moments.keys()
    return {
        target: LagReport(5.0, tuple(QueryLag(each.query) for each in committed)) for target, committed in asked.items()
    }


def test_targets_with_queries_of_one_name_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = []
    for name in ("one", "two"):
        log = new_log(f"file://{tmp_path}", name)
        release = {"version": "1", "hash": "0" * 64}
        log.append(make_record("declared", "t", deployment=f"{name}-1", release=release, reason="t", policy={}), 0)
        targets.append(LagTarget("kafka", name, f"file://{tmp_path}"))
    groups = [LagTarget("kafka", group="g"), LagTarget("kafka", stream="gone", control=f"file://{tmp_path}")]

    monkeypatch.setattr("airflow_stream_provider.lag.measure.measure_each", measured)
    monkeypatch.setattr(
        "airflow_stream_provider.lag.reader.read_sources",
        lambda stream, *_: [CommittedOffsets("enrich").read(), CommittedOffsets(f"of {stream}").read()],
    )
    found = LagReader(Client(), FilesRoot).read(dict.fromkeys([*targets, *groups], Moments()))  # type: ignore[arg-type]
    names = {t.name: [q.query for q in r.queries] for t, r in found.items() if isinstance(r, LagReport)}
    assert names == {"one": ["enrich", "of one"], "two": ["enrich", "of two"], "g": ["g"]}
    assert isinstance(found[groups[1]], StreamError)


@pytest.mark.parametrize("damaged", [b"", b"{torn", b"\xff", b"[" * 100_000])
def test_a_damaged_heartbeat_spoils_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bytes) -> None:
    log = new_log(f"file://{tmp_path}", "orders")
    write(log, *RUNNING)
    log.store.put_heartbeat(OLD, damaged)
    monkeypatch.setattr("airflow_stream_provider.lag.measure.measure_each", measured)
    target = LagTarget("kafka", "orders", f"file://{tmp_path}")
    found = LagReader(Client(), FilesRoot).read({target: Moments()})[target]  # type: ignore[arg-type]
    assert isinstance(found, LagReport)
    assert [query.query for query in found.queries] == ["a"]


def read(found: Mapping[str, list[Committed] | Exception], monkeypatch: pytest.MonkeyPatch, **more: Any) -> Any:
    """Read targets whose committed offsets are these."""

    def committed(self: LagReader, target: LagTarget) -> Any:
        answer = found[target.stream]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(LagReader, "_committed", committed)
    targets = {LagTarget("kafka", name, "file:///control"): Moments() for name in found}
    return {target.stream: each for target, each in LagReader(Client(**more), FilesRoot).read(targets).items()}  # type: ignore[arg-type]


def test_a_damaged_file_is_the_problem_of_its_own_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torn heartbeat, or a checkpoint that nobody foresaw, says nothing about the other streams."""
    found = read({"good": [Committed("q", problem="It has no batch yet.")], "bad": ValueError("torn")}, monkeypatch)
    assert [query.problem for query in found["good"].queries] == ["It has no batch yet."]
    assert isinstance(found["bad"], LagUnmeasured)
    assert (found["bad"].fields["kind"], "ValueError: torn" in str(found["bad"])) == ("ValueError", True)


def test_offsets_that_cannot_be_measured_are_the_problem_of_their_own_target(monkeypatch: pytest.MonkeyPatch) -> None:
    absurd: Any = {"t": ["not", "by", "partition"]}
    found = read({"good": [Committed("q", problem="?")], "bad": [Committed("q", absurd)]}, monkeypatch)
    assert isinstance(found["good"], LagReport)
    assert isinstance(found["bad"], LagUnmeasured)


def test_a_mount_that_hangs_stalls_only_its_own_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a FIFO that nobody writes to hangs as a dead mount does."""
    dead = tmp_path / "dead"
    os.mkfifo(dead)

    def committed(self: LagReader, target: LagTarget) -> Any:
        return [Committed("q", problem=dead.read_text() if target.stream == "dead" else "Fine.")]

    monkeypatch.setattr(LagReader, "_committed", committed)
    targets = {LagTarget("kafka", name, "file:///control"): Moments() for name in ("dead", "alive")}
    readers: list[LagReader] = []

    def told_apart(seconds: float) -> bool:
        monkeypatch.setattr("airflow_stream_provider.lag.reader.READ_SECONDS", seconds)
        found = {target.stream: each for target, each in readers[-1].read(targets).items()}
        return isinstance(found["alive"], LagReport) and isinstance(found["dead"], NoAnswer)

    def told_apart_at_first(seconds: float) -> bool:
        readers.append(LagReader(Client(), FilesRoot))  # type: ignore[arg-type]
        return told_apart(seconds)

    in_time(told_apart_at_first)
    assert told_apart(60.0)
    reader = readers[-1]
    dead.write_text("It answers again.")
    dead.unlink()
    dead.write_text("It answers again.")
    until = time.monotonic() + 60
    while isinstance(reader.read(targets)[next(iter(targets))], NoAnswer):
        assert time.monotonic() < until

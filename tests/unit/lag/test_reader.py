"""One read of many targets; measuring itself is in test_measure.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.kafka.requests import Answers
from airflow_stream_provider.lag.committed_offsets import CommittedOffsets, HeartbeatOffsets
from airflow_stream_provider.lag.reader import LagReader
from airflow_stream_provider.lag.report import LagReport, QueryLag
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from tests.support.control_root import new_log
from tests.support.story import OLD, RUNNING, write


def measured(client: Any, asked: Mapping[LagTarget, Iterable[CommittedOffsets]]) -> dict[LagTarget, LagReport]:
    return {
        target: LagReport(5.0, tuple(QueryLag(each.read().query) for each in sources))
        for target, sources in asked.items()
    }


class Client:
    def groups_offsets(self, groups: Iterable[str]) -> Answers[str, dict[Any, int]]:
        found: Answers[str, dict[Any, int]] = Answers()
        found.update({group: {} for group in groups})
        return found


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
        "airflow_stream_provider.lag.reader.stream_sources",
        lambda stream, *_: [HeartbeatOffsets("enrich", Heartbeat()), HeartbeatOffsets(f"of {stream}", Heartbeat())],
    )
    found = LagReader(Client()).read([*targets, *groups, targets[0]])  # type: ignore[arg-type]
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
    found = LagReader(Client()).read([target])[target]  # type: ignore[arg-type]
    assert isinstance(found, LagReport)
    assert [query.query for query in found.queries] == ["a"]

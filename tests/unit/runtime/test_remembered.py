"""What a file sink's log means for its query's checkpoint. Real ones: tests/integration/runtime/test_positions.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import LogEnds, SinkLog
from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.runtime import compatibility as module
from airflow_stream_provider.runtime.compatibility import check_remembered, judge, remembered
from airflow_stream_provider.runtime.writer_spec import WriterSpec
from devstack import checkpoint_trees as trees

NEW = LogEnds(None, None)


@pytest.mark.parametrize(
    ("ends", "earlier", "later"),
    [
        pytest.param(NEW, SinkLog(), SinkLog(), id="both are new"),
        pytest.param(LogEnds(7, 7), SinkLog(7), SinkLog(7), id="at a batch boundary"),
        pytest.param(LogEnds(8, 7), SinkLog(8), SinkLog(8), id="written and not committed"),
        pytest.param(LogEnds(8, 7), SinkLog(7), SinkLog(7), id="planned and not written"),
        pytest.param(LogEnds(9, 9), SinkLog(7), SinkLog(9), id="the holder goes on between the looks"),
        pytest.param(LogEnds(8, 7), SinkLog(7), SinkLog(9), id="and behind the last one"),
        pytest.param(LogEnds(0, None), SinkLog(), SinkLog(), id="its first batch is under way"),
    ],
)
def test_a_log_that_goes_with_the_checkpoint(ends: LogEnds, earlier: SinkLog, later: SinkLog) -> None:
    assert judge("q", "/out", earlier, ends, lambda: later) == ([], [])


@pytest.mark.parametrize(
    ("ends", "log", "said"),
    [
        (NEW, SinkLog(14), "batches up to 14, and its checkpoint goes on with batch 0"),
        (NEW, SinkLog(0), "so the next 1 would be committed and never written"),
        (LogEnds(3, 3), SinkLog(14), "goes on with batch 4"),
        (LogEnds(3, 2), SinkLog(5), "so the next 2 would be committed and never written"),
    ],
)
def test_a_log_that_is_ahead_loses_batches(ends: LogEnds, log: SinkLog, said: str) -> None:
    (lost,), fatal = judge("q", "/out", log, ends, lambda: log)
    assert said in lost
    assert fatal == []


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (SinkLog(), "has committed batches up to 7, and the log in that folder has none"),
        (SinkLog(3), "and the log in that folder has them up to 3"),
        (SinkLog(7, (4, 5)), "the log in that folder lacks the batches 4, 5"),
    ],
)
def test_a_log_that_lacks_batches_ends_the_query_for_ever(log: SinkLog, said: str) -> None:
    lost, (fatal,) = judge("q", "/out", log, LogEnds(7, 7), lambda: log)
    assert said in fatal
    assert lost == []


def test_batches_are_lost_only_on_purpose_and_then_said(monkeypatch: pytest.MonkeyPatch) -> None:
    query: Any = SimpleNamespace(checkpoint="/data/q")
    monkeypatch.setattr(module, "remembered", lambda query: (["The next 6 are lost."], [], ["a note"]))
    assert check_remembered(query, True) == ["The next 6 are lost.", "a note"]
    with pytest.raises(RehearsalRefused, match="The next 6 are lost") as refused:
        check_remembered(query, False)
    assert "Give the query a folder of its own" in refused.value.next_step
    assert "name `/data/q: sink_log` in the form's `changed_checkpoints`" in refused.value.next_step


def test_what_ends_the_query_for_ever_cannot_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    query: Any = SimpleNamespace(checkpoint="/data/q")
    monkeypatch.setattr(module, "remembered", lambda query: ([], ["It fails for ever."], []))
    with pytest.raises(RehearsalRefused, match="It fails for ever") as refused:
        check_remembered(query, True)
    assert "sink_log" not in refused.value.next_step


@pytest.mark.parametrize(
    ("sink", "lost", "note"),
    [
        ("delta", "has batches of it up to 9, and its checkpoint goes on with batch 5", ""),
        ("hudi", "", "Hudi drops the batches up to the last one that it remembers"),
        ("org.apache.iceberg", "", "Iceberg remembers batches by the id of the query"),
        ("kafka", "", ""),
    ],
)
def test_what_other_tables_remember(tmp_path: Path, sink: str, lost: str, note: str) -> None:
    table, root = tmp_path / "table", trees.new(tmp_path / "checkpoint")
    for batch in (3, 4) if sink == "delta" else ():
        trees.plan(root, batch, "-")
    (table / "_delta_log").mkdir(parents=True)
    (table / "_delta_log" / f"{0:020}.json").write_text('{"txn": {"appId": "mine", "version": 9}}\n')
    spec = WriterSpec(format=sink, target=str(table))
    session = SimpleNamespace(_spark=None)
    query: Any = SimpleNamespace(label="q", id="mine", checkpoint=str(root), writer_spec=spec, writer=session)
    if sink == "kafka":
        spec.target = ""
    found, fatal, notes = remembered(query)
    assert (bool(found), fatal, bool(notes)) == (bool(lost), [], bool(note))
    assert lost in "".join(found)
    assert note in "".join(notes)

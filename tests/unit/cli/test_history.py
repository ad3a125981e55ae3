"""`airflow streams history`: on real control logs, as a table and as JSON."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_stream_provider.cli import commands
from airflow_stream_provider.cli.status import Code
from airflow_stream_provider.control import FilesRoot
from devstack.checkpoint_trees import commit, kafka, new, plan
from tests.support.control_root import log_of
from tests.support.story import HANDED_OVER, NEW, OLD, PREPARED, standby

Show = Callable[..., str]


@pytest.fixture
def show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    """Run the command on the stream orders, whose control root is the test's folder."""
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "orders.yaml").write_text(
        f"name: orders\napplication: a.py\nversion: v1\ncluster: c\ncontrol: file://{tmp_path}\n"
    )

    def show(*, last: int = 30, json: bool = False, control: str = "") -> str:
        folder = str(tmp_path / "streams")
        commands.history(Namespace(name="orders", folder=folder, json=json, control=control, last=last, verbose=False))
        return capsys.readouterr().out

    return show


def test_the_life_of_a_stream_is_a_table_and_json(show: Show, tmp_path: Path) -> None:
    log_of(f"file://{tmp_path}", *HANDED_OVER)
    text = show()
    assert [text.count(word) for word in ("deployed", "stood by", "started", "handed over")] == [2, 2, 1, 1]
    assert "a person wants it" in text
    events = json.loads(show(json=True))
    assert [event["what"] for event in events][-2:] == ["stood_by", "handed_over"]
    assert {**events[-1], "release": "…"} == {
        "seq": 13,
        "what": "handed_over",
        "at": 100.0,
        "by": "airflow",
        "reason": "a person wants it",
        "deployment": NEW.rpartition(".")[0],
        "incarnation": NEW,
        "version": "1",
        "release": "…",
        "before": OLD,
        "free_seconds": 0.0,
        "gap_seconds": {},
        "evidence": {},
        "replaces": 0,
    }
    assert json.loads(show(json=True, last=2)) == events[-2:]


def test_a_gap_is_measured_where_the_checkpoint_can_be_read(show: Show, tmp_path: Path) -> None:
    root = new(tmp_path / "checkpoint")
    for batch, at in enumerate((90.0, 99.0, 102.5)):
        plan(root, batch, kafka(orders={0: batch}))
        commit(root, batch, at=at)
    query = {"name": "enrich", "checkpoint": str(tmp_path / "checkpoint")}
    up = replace(standby(NEW), fields={**standby(NEW).fields, "queries": [query]})
    log_of(f"file://{tmp_path}", *PREPARED[:-1], up, *HANDED_OVER[len(PREPARED) :])
    assert json.loads(show(json=True))[-1]["gap_seconds"] == {"enrich": 3.5}
    assert "enrich 3.5 s" in show()


def test_a_stream_that_was_never_deployed_has_none(show: Show, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as found:
        show()
    assert found.value.code == Code.UNKNOWN
    assert "is not a control root" in capsys.readouterr().err


def test_the_life_of_a_stream_is_told_though_its_yaml_cannot_be_used(
    show: Show, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_of(f"file://{tmp_path}", *HANDED_OVER)
    yaml = tmp_path / "streams" / "orders.yaml"
    yaml.write_text(yaml.read_text() + "versoin: 2\n")
    note = {"file": "orders.yaml", "watch": "", "stream": {"cluster": "c"}}
    FilesRoot(tmp_path.as_uri()).note("orders", json.dumps(note).encode())
    assert "handed over" in show(control=tmp_path.as_uri())
    with pytest.raises(SystemExit) as ended:
        show()
    assert ended.value.code == Code.UNKNOWN
    assert "orders.yaml" in capsys.readouterr().err

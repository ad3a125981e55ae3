"""`airflow streams validate`: what it prints and exits with; what it finds is tested in the room `spec`."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from airflow_stream_provider.cli import commands
from airflow_stream_provider.cli.status import Code

GOOD = "name: orders\napplication: a.py\nversion: v1\ncluster: c\ncontrol: file:///nowhere\n"


def run(folder: Path, *, json: bool = False) -> int:
    with pytest.raises(SystemExit) as found:
        commands.validate(Namespace(folder=str(folder), json=json, verbose=False))
    assert isinstance(found.value.code, int)
    return found.value.code


def test_it_says_what_is_wrong_and_exits_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    streams = tmp_path / "streams"
    assert run(streams) == Code.UNKNOWN
    assert "There is no folder" in capsys.readouterr().err
    streams.mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    (streams / "orders.yaml").write_text(GOOD)
    assert run(streams) == 0
    warning, last = capsys.readouterr().out.splitlines()
    assert warning.startswith(f"Warning: {streams}/orders.yaml, line 1, notify: nobody is told when the stream is down")
    assert last == "1 file, 0 errors, 1 warning."
    (streams / "orders.yaml").write_text(GOOD + "notify: [{call: a.b}]\n")
    assert run(streams) == 0
    assert capsys.readouterr().out == "1 file, 0 errors.\n"
    assert run(streams, json=True) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []
    (streams / "orders.yaml").write_text(GOOD.replace("version", "versoin"))
    assert run(streams) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.endswith('orders.yaml, line 1, version: this field is missing. Add `version: "1.0"`.')
    assert second.endswith("orders.yaml, line 3, versoin: there is no such field. Did you mean `version`?")
    assert last == "1 file, 2 errors."
    assert run(streams, json=True) == 1
    assert [error["line"] for error in json.loads(capsys.readouterr().out)["errors"]] == [1, 3]

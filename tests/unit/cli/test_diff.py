"""`airflow streams diff`: what it shows and exits with; what it compares is tested in the room `hooks`."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from airflow_stream_provider.cli import commands
from airflow_stream_provider.cli.status import Code
from tests.support.control_root import new_log, published
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    ready,
    requested,
    standby,
    submitted,
    write,
)


@pytest.fixture
def yaml(tmp_path: Path) -> Path:
    (tmp_path / "streams").mkdir()
    path = tmp_path / "streams" / "orders.yaml"
    path.write_text(
        f'name: orders\napplication: app.py\nversion: "1"\ncluster: spark_default\ncontrol: file://{tmp_path}\n'
    )
    log = new_log(f"file://{tmp_path}")
    holds = [standby(OLD), requested("start", OLD), ready("start", OLD), acquired(OLD, "start", 1)]
    write(log, published(log, OLD_DEPLOYMENT), submitted(OLD_DEPLOYMENT), *holds)
    return path


def run(yaml: Path, *, json: bool = False) -> int:
    with pytest.raises(SystemExit) as found:
        commands.diff(Namespace(name="orders", folder=str(yaml.parent), json=json, verbose=False))
    assert isinstance(found.value.code, int)
    return found.value.code


def test_it_exits_as_diff_does(yaml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(yaml) == 0
    shown = capsys.readouterr().out
    assert f"orders: release 1 ({OLD_DEPLOYMENT}) runs." in shown
    assert "an upgrade would change nothing" in shown
    yaml.write_text(yaml.read_text().replace('version: "1"', 'version: "2"') + "conf: {spark.executor.instances: 3}\n")
    assert run(yaml) == 1
    shown = capsys.readouterr().out
    assert "spark.executor.instances" in shown
    assert "An upgrade would deploy release 2 (" in shown
    assert run(yaml, json=True) == 1
    fields = [each["field"] for each in json.loads(capsys.readouterr().out)["differences"]]
    assert fields == ["release", "version", "conf.spark.executor.instances"]
    (tmp_path / "app.py").unlink()
    assert run(yaml) == Code.UNKNOWN
    assert "There is no file" in capsys.readouterr().err

"""`airflow streams diff`: what it shows and exits with; what it compares is tested in the room `hooks`."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from airflow_stream_provider.cli import commands
from airflow_stream_provider.cli.comparison_view import comparison_view
from airflow_stream_provider.cli.status import Code
from airflow_stream_provider.hooks.compare import Comparison
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.releases.differences import Difference
from tests.support.control_root import new_log, published
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    RUNNING,
    acquired,
    play,
    ready,
    requested,
    standby,
    submitted,
    write,
)

HELD = play(RUNNING).deployments[OLD_DEPLOYMENT]
SAME = Comparison("orders", StreamPhase.RUNNING, HELD, HELD.release)
NEW = Release("2", "b" * 64)


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


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (replace(SAME, phase=StreamPhase.STOPPED), "ran last; the stream is stopped now."),
        (replace(SAME, running=None), "orders: no release has ever run."),
        (replace(SAME, running=None), f"An upgrade would deploy release 1 ({HELD.release.hash[:12]})."),
        (replace(SAME, found=(Difference("cluster", "a", "b"),)), "the same release, with what the YAML says now."),
        (replace(SAME, wanted=NEW, problem="It is away."), "cannot be compared one by one: It is away."),
    ],
)
def test_the_sentences(found: Comparison, says: str) -> None:
    assert says in shown(found)


@pytest.mark.parametrize(
    ("difference", "row"),
    [
        (Difference("release", "a" * 64, "b" * 64), ["release", "a" * 12, "b" * 12]),
        (Difference("files.a.py", None, "b" * 64), ["files.a.py", "-", "b" * 12]),
        (Difference("arguments", ["--a", "b c"], None), ["arguments", "--a 'b c'", "-"]),
        (Difference("upgrade.lease_seconds", 30.0, 45), ["upgrade.lease_seconds", "30", "45"]),
        (Difference("upgrade.foreach_batch_safe", False, True), ["upgrade.foreach_batch_safe", "False", "True"]),
        (Difference("conf.x", "[red]", "\x1b]52;c;eA\x1b\\"), ["conf.x", "[red]", "\ufffd]52;c;eA\ufffd\\"]),
    ],
)
def test_a_row(difference: Difference, row: list[str]) -> None:
    text = shown(replace(SAME, found=(difference,)))
    (line,) = (line for line in text.splitlines() if line.startswith(f"│ {difference.field} "))
    assert [cell.strip() for cell in line.strip("│").split("│")] == row


def shown(found: Comparison) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(comparison_view(found))
    return out.getvalue()

"""What the commands print and exit with; the command line itself is in tests/integration/airflow."""

from __future__ import annotations

import json
import re
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_stream_provider.cli import act, commands
from airflow_stream_provider.cli.definition import get_streams_cli_commands
from airflow_stream_provider.cli.status import Code
from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.hooks import lag as hook
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lag.limits import Health, Streaks
from airflow_stream_provider.lag.report import LagReport, Verdict
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.monitoring.incidents import Incident, IncidentState
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample, append
from airflow_stream_provider.planning.operation import Operation
from tests.support.control_root import new_log
from tests.support.lag_reports import partition, report
from tests.support.snapshots import RUNNING
from tests.support.story import OLD

YAML = """\
name: {name}
application: a.py
version: "1"
cluster: c
kafka: k
control: {control}
lag: {{max_records: 10}}
"""


# The commands that change nothing that runs.
LOOK = ["init", "lag", "status", "history", "ledger", "diff", "audit", "validate"]
OWN_FILES = ["advice", "trial", "dossier"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    streams = tmp_path / "streams"
    streams.mkdir()
    for name in ("orders", "new"):
        (streams / f"{name}.yaml").write_text(YAML.format(name=name, control=f"file://{tmp_path}"))
    log = new_log(f"file://{tmp_path}", "orders")
    log.beat(OLD, Heartbeat(at=time.time()))
    for seq, one in enumerate(RUNNING):
        log.append(one, seq)
    return streams


def watched(tmp_path: Path, at: float, verdict: str = "OK", health: Health = Health.PASS) -> None:
    kept = FilesRoot(f"file://{tmp_path}").samples("orders")
    incidents = {"lag": IncidentState(Streaks(), Incident("orders-1", at))} if verdict == "ERR" else {}
    queries = {"enrich": QuerySample(5, 3.0, verdict)}
    append(kept, LagSample(at, "running", "1", queries, health, incidents=incidents))


def run(command: Callable[[Namespace], Any], folder: Path, **more: Any) -> int:
    given = {
        "folder": str(folder),
        "json": False,
        "watch": False,
        "history": False,
        "ledger": None,
        "verbose": False,
        "last": 30,
        "name": "orders",
        **more,
    }
    with pytest.raises(SystemExit) as found:
        command(Namespace(**given))
    assert isinstance(found.value.code, int)
    return found.value.code


def samples(folder: Path, **more: Any) -> int:
    return run(commands.lag, folder, history=True, **more)


def measuring(monkeypatch: pytest.MonkeyPatch, *found: LagReport | Exception) -> None:
    left = list(found)

    def measure(target: Any, extra: Any, roots: Any, moments: Any) -> LagReport:
        if not left:
            raise KeyboardInterrupt
        one = left.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(hook, "kafka_extra", lambda kafka: {})
    monkeypatch.setattr(hook, "measure_lag", measure)
    monkeypatch.setattr(commands, "WATCH_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("found", "code", "says"),
    [
        (report(partition(5)), Code.WELL, "PASS"),
        (report(partition(5, verdict=Verdict.WARN)), Code.WARN, "WARN"),
        (report(partition(11)), Code.BAD, "enrich is behind by 11 records; 10 are allowed."),
        (report(partition(5), partition(None, 1)), Code.UNKNOWN, "no_leader"),
        (BrokerUnreachable("Kafka does not answer."), Code.UNKNOWN, "Kafka does not answer."),
    ],
)
def test_lag_is_shown_and_told_by_the_exit_code(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: LagReport | Exception,
    code: Code,
    says: str,
) -> None:
    measuring(monkeypatch, found)
    assert run(commands.lag, folder) == code
    assert says in capsys.readouterr().out


def test_lag_is_json_for_programs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measuring(monkeypatch, report(partition(11)))
    assert run(commands.lag, folder, json=True) == Code.BAD
    found = json.loads(capsys.readouterr().out)
    assert (found["stream"], found["health"], found["records"]) == ("orders", "fail", 11)
    assert found["queries"][0]["partitions"][0]["lag"] == 11
    measuring(monkeypatch, BrokerUnreachable("Kafka does not answer."))
    assert run(commands.lag, folder, json=True) == Code.UNKNOWN
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["reasons"], found.get("records")) == ("UNKNOWN", ["Kafka does not answer."], None)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_watch_looks_until_ctrl_c_and_exits_by_its_last_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    measuring(monkeypatch, report(partition(5)), report(partition(11)))
    assert run(commands.lag, folder, watch=True, json=as_json) == Code.BAD
    if as_json:
        assert [json.loads(line)["records"] for line in capsys.readouterr().out.splitlines()] == [5, 11]


def test_only_the_partitions_to_look_at_first_are_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measuring(monkeypatch, report(*(partition(n, n) for n in range(50))))
    run(commands.lag, folder)
    shown = capsys.readouterr().out
    assert "30 partitions with less lag are not shown" in shown
    assert len(shown.splitlines()) < 50


def test_a_stream_that_is_not_there_is_named_with_those_that_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(commands.lag, folder, name="order") == Code.UNKNOWN
    assert "There is no stream order" in (said := capsys.readouterr().err)
    assert "new, orders" in said
    assert run(commands.status, folder / "nowhere") == Code.UNKNOWN
    assert "There is no folder" in capsys.readouterr().err


def test_status_shows_all_streams_and_the_worst_code(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(tmp_path, time.time() - 30)
    (folder / "broken.yaml").write_text("name: [")
    assert run(commands.status, folder) == Code.UNKNOWN
    shown = capsys.readouterr().out
    assert "running" in shown
    assert re.search(r"\b(3\d|4\d) s ago", shown)
    assert "broken" in shown
    assert run(commands.status, folder, json=True) == Code.UNKNOWN
    lines = {line["stream"]: line for line in json.loads(capsys.readouterr().out)}
    assert (lines["orders"]["code"], lines["orders"]["lag"]["queries"]["enrich"]["records"]) == (0, 5)
    assert lines["new"]["problem"].startswith("There is no control log")


@pytest.mark.parametrize(
    ("age", "verdict", "health", "code"),
    [
        (30, "OK", Health.PASS, 0),
        (30, "WARN", Health.PASS, 1),
        (30, "OK", Health.FAIL, 2),
        (30, "ERR", Health.FAIL, 2),
        (30, "UNKNOWN", Health.UNKNOWN, 3),
        (901, "OK", Health.PASS, 3),
    ],
)
def test_a_stream_that_runs_is_as_well_as_its_last_sample_was_judged(
    folder: Path, tmp_path: Path, age: int, verdict: str, health: Health, code: int
) -> None:
    (folder / "new.yaml").unlink()
    watched(tmp_path, time.time() - age, verdict, health)
    assert run(commands.status, folder) == code


@pytest.mark.parametrize("kafka", ["kafka: k\n", ""])
def test_what_the_watch_has_opened_is_bad_and_a_stream_that_was_stopped_is_not(
    folder: Path, tmp_path: Path, kafka: str
) -> None:
    (folder / "new.yaml").unlink()
    text = (folder / "orders.yaml").read_text().replace("kafka: k\n", kafka)
    (folder / "orders.yaml").write_text(text)
    kept = FilesRoot(f"file://{tmp_path}").samples("orders")
    silent = {"down": IncidentState(Streaks(), Incident("orders-down-1", 1.0))}
    queries = {"enrich": QuerySample(5, 3.0, "OK")}
    append(kept, LagSample(time.time(), "running", "1", queries, incidents=silent))
    assert (run(commands.status, folder), samples(folder)) == (Code.BAD, Code.BAD)
    late = {"enrich": QuerySample(500, 3.0, "ERR")}
    append(kept, LagSample(time.time(), "stopped", "1", late, Health.FAIL))
    assert samples(folder) == Code.WELL


def test_the_last_samples_are_shown(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert samples(folder) == Code.UNKNOWN
    assert "streams__watch" in capsys.readouterr().out
    for age, verdict in ((120, "OK"), (60, "OK"), (0, "ERR")):
        watched(tmp_path, time.time() - age, verdict)
    assert samples(folder, last=2) == Code.BAD
    shown = capsys.readouterr().out
    assert ("ERR" in shown, "orders-1" in shown, shown.count("running")) == (True, True, 2)
    assert samples(folder, json=True) == Code.BAD
    assert [len(json.loads(capsys.readouterr().out))] == [3]


def test_what_was_measured_cannot_be_watched(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert samples(folder, watch=True) == Code.UNKNOWN
    assert "Leave out one of them." in capsys.readouterr().err


def test_the_commands_are_found_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    (group,) = get_streams_cli_commands()
    assert isinstance(group, GroupCommand)
    acted: list[str] = []
    monkeypatch.setattr(act, "act", lambda args, operation: acted.append(operation))
    for command in group.subcommands:
        assert isinstance(command, ActionCommand)
        if command.name in LOOK:
            assert callable(getattr(commands, command.name))
        elif command.name not in OWN_FILES:
            command.func(Namespace())
    assert [command.name for command in group.subcommands] == [*LOOK, *OWN_FILES, *Operation]
    assert acted == [*Operation]

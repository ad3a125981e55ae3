"""Every command that a page shows is one that there is, and those of some do what is said beside them."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand
from airflow.cli.cli_parser import AirflowHelpFormatter, _add_command

from airflow_stream_provider.cli.definition import get_streams_cli_commands
from airflow_stream_provider.cli.upgrade_run import UpgradeRun
from airflow_stream_provider.monitoring.life import What
from devstack.control_folder import folder_of, publish
from tests.support.control_root import new_log
from tests.support.story import OLD, OLD_DEPLOYMENT, acquired, ready, record, requested, standby, submitted, write

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = ("upgrade.md", "operate.md", "reference/fields.md", "reference/records.md")
OPERATIONS = "\n".join((ROOT / "docs" / name).read_text() for name in NAMES)


def shown(text: str) -> list[list[str]]:
    """Return the words of each command of a page, without its comment."""
    blocks = "".join(re.findall(r"^```bash\n(.*?)^```", text, re.M | re.S))
    lines = re.findall(r"^airflow (streams .*)$", blocks.replace("\\\n", " "), re.M)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """Airflow's own, with our commands alone."""
    found = argparse.ArgumentParser(prog="airflow", formatter_class=AirflowHelpFormatter)
    commands = found.add_subparsers()
    for command in get_streams_cli_commands():
        _add_command(commands, command)
    return found


def commands_of(pages: list[Path]) -> list[object]:
    return [pytest.param(words, id=" ".join(words)) for page in pages for words in shown(page.read_text())]


@pytest.mark.parametrize("words", commands_of(PAGES))
def test_every_command_of_every_page_can_be_called(parser: argparse.ArgumentParser, words: list[str]) -> None:
    assert callable(parser.parse_args(words).func)


def test_less_than_one_event_of_the_history_is_refused(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in ("0", "-3"):
        with pytest.raises(SystemExit):
            parser.parse_args(["streams", "history", "orders", "-n", number])
        assert f"invalid positive int value: '{number}'" in capsys.readouterr().err


def test_every_command_is_shown_on_a_page() -> None:
    (group,) = get_streams_cli_commands()
    assert isinstance(group, GroupCommand)
    names = {command.name for command in group.subcommands if isinstance(command, ActionCommand)}
    assert names <= {words[1] for page in PAGES for words in shown(page.read_text())}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stream that runs what its YAML says, in the folders that the page names."""
    dags = tmp_path / "dags"
    for name in ("streams", "apps"):
        (dags / name).mkdir(parents=True)
    (dags / "apps" / "orders.py").write_text("x = 1\n")
    (dags / "streams" / "orders.yaml").write_text(
        f'name: orders\napplication: apps/orders.py\nversion: "1"\ncluster: spark_default\ncontrol: file://{tmp_path}\n'
    )
    log = new_log(f"file://{tmp_path}")
    release = publish(folder_of(log), version="1", application=dags / "apps" / "orders.py").to_json()
    write(log, record("declared", deployment=OLD_DEPLOYMENT, release=release, policy={}, reason="why"))
    holds = [standby(OLD), requested("start", OLD), ready("start", OLD), acquired(OLD, "start", 1)]
    write(log, submitted(OLD_DEPLOYMENT), *holds)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master")
    monkeypatch.chdir(tmp_path)
    return dags


def code_of(parser: argparse.ArgumentParser, words: list[str]) -> int:
    args = parser.parse_args(words)
    try:
        args.func(args)
    except SystemExit as found:
        return int(found.code or 0)
    return 0


@pytest.mark.parametrize(
    ("name", "says", "code_when_changed"),
    [
        ("validate", "1 file, 0 errors, 1 warning.", 1),
        ("diff", "an upgrade would change nothing", 1),
        ("history", "started", 0),
    ],
)
def test_the_commands_of_operations_do_what_is_said(
    here: Path,
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    name: str,
    says: str,
    code_when_changed: int,
) -> None:
    commands = [words for words in shown(OPERATIONS) if words[1] == name]
    assert commands
    for words in commands:
        assert code_of(parser, words) == 0
        out = capsys.readouterr().out
        if "--json" in words:
            assert json.loads(out)
        else:
            assert says in out
    yaml = here / "streams" / "orders.yaml"
    yaml.write_text(yaml.read_text() + "environment: {REGION: eu}\n")
    if name == "validate":
        (here / "apps" / "orders.py").unlink()
    assert code_of(parser, commands[0]) == code_when_changed


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("stop", "stops at a batch boundary, within"),
        ("start", "Nothing to do: Release 1 runs already."),
        ("restart", "is started. It rehearses on a clone of the checkpoint."),
        ("upgrade", "Nothing to do: Release 1 ("),
        ("redeploy", "Refused: orders has no stored release of which the hash begins with '7a6b5c4d'"),
        ("rewind", "Refused: Its YAML names no connection `kafka`, so nobody can tell which records are since then."),
        ("promote", "Nothing to do: No new release stands by."),
        ("roll-back", "Refused: No release is known that held before"),
        ("abort", "Nothing to do: No new release comes up or stands by."),
        ("fence", "is killed. It counts as dead when the cluster confirms that it is gone"),
        ("retire", "Left to be removed by hand after that: its YAML"),
    ],
)
def test_the_commands_that_act_say_first_what_will_happen(
    here: Path,
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    says: str,
) -> None:
    # There is no database of Airflow's here.
    monkeypatch.setattr(
        UpgradeRun, "of", lambda stream, who, reason, digits, **more: UpgradeRun("orders__upgrade", who)
    )
    commands = [words for words in shown(OPERATIONS) if words[1] == name]
    assert commands
    for words in commands:
        if "--confirmed-by" not in words:
            assert code_of(parser, [*dict.fromkeys((*words, "--dry-run"))]) == (1 if "Refused" in says else 0)
            assert says in capsys.readouterr().out


def test_each_question_of_a_night_has_one_command_and_one_click() -> None:
    page = (ROOT / "docs" / "on_call.md").read_text()
    questions = page.split("\n## ")[1:]
    assert [question.partition(".")[0] for question in questions] == [str(number) for number in range(1, 11)]
    for question in questions:
        assert len(shown(question)) == 1, question
        assert len(re.findall("^Click: ", question, re.M)) == 1, question


def test_every_event_of_a_life_is_explained() -> None:
    (table,) = re.findall(r"^\| event [^|]*\| means \|\n(.*?)\n(?:\n|\Z)", OPERATIONS, re.M | re.S)
    explained = [name for row in table.splitlines() for name in re.findall(r"`([a-z ]+)`", row.split("|")[1])]
    assert sorted(explained) == sorted(what.words for what in What)

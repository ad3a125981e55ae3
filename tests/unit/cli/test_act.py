"""What the commands that act print, ask and exit with, on a real control log; a thread stands in for the driver."""

from __future__ import annotations

import io
import json
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.cli import act, run_here
from airflow_stream_provider.cli.run_here import Exit
from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.operation import FOR_GOOD
from tests.support.noting_cluster import NotingCluster
from tests.support.story import OLD, OLD_DEPLOYMENT, released, write

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(streams: Path, cluster: NotingCluster, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call a command; return its exit code, and what it has written to both outputs."""

    def called(command: Callable[[Namespace], object], **given: Any) -> tuple[int, str, str]:
        known: dict[str, Any] = {"name": "orders", "reason": "disk of w3", "folder": str(streams)}
        with pytest.raises(SystemExit) as end:
            command(Namespace(**(known | {"dry_run": False, "yes": False, "json": False, "verbose": False} | given)))
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    return called


@pytest.fixture
def stops(running: ControlLog, cluster: NotingCluster) -> Iterator[None]:
    """A driver that stops at its batch boundary when it is asked to, and ends."""
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.RUNNING
    over = threading.Event()

    def follow() -> None:
        log = ControlLog(running.store, "orders")
        while not over.wait(0.02):
            request = log.refresh().open_request
            if request is not None and request.to is None:
                write(log, released(OLD, request.id, None))
                cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
                return

    thread = threading.Thread(target=follow)
    thread.start()
    yield
    over.set()
    thread.join()


class Terminal(io.StringIO):
    """A person who gives these answers."""

    def isatty(self) -> bool:
        return True


def answers(monkeypatch: pytest.MonkeyPatch, *given: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{each}\n" for each in given)))


def test_a_dry_run_says_what_would_happen_and_touches_nothing(call: Call, running: ControlLog) -> None:
    code, out, err = call(act.stop, dry_run=True)
    assert (code, err) == (Exit.DONE, "")
    assert out.splitlines()[0].startswith(f"orders is running: driver {OLD} with release 1 (")
    assert out.splitlines()[-2:] == [
        "Read again: nothing, as every query stops at a batch boundary.",
        "Dry run: nothing was done.",
    ]
    before = running.state.seq
    assert running.refresh().seq == before


def test_a_program_reads_the_same_as_json(call: Call, running: ControlLog) -> None:
    code, out, _ = call(act.fence, dry_run=True, json=True)
    found = json.loads(out)
    assert (code, found["outcome"], found["stream"]) == (Exit.DONE, "dry_run", "orders")
    assert (found["foreseen"]["operation"], found["foreseen"]["held"]["driver"]) == ("fence", OLD)
    assert "batch 8 of a" in found["foreseen"]["reads_again"]


def test_what_cannot_be_done_is_refused_and_nothing_is_touched(call: Call, running: ControlLog) -> None:
    before = running.state.seq
    code, out, _ = call(act.roll_back, yes=True)
    assert code == Exit.REFUSED
    assert f"Refused: No release is known that held before {OLD_DEPLOYMENT}." in out
    assert running.refresh().seq == before


@pytest.mark.parametrize("json_", [False, True])
def test_nothing_is_done_where_nobody_can_be_asked(call: Call, running: ControlLog, json_: bool) -> None:
    before = running.state.seq
    code, out, err = call(act.stop, json=json_)
    assert code == Exit.REFUSED
    assert "give --yes" in (out if json_ else err)
    assert running.refresh().seq == before


def test_a_person_may_say_no(call: Call, running: ControlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "")
    before = running.state.seq
    code, out, err = call(act.stop)
    assert (code, err) == (Exit.REFUSED, "Nothing was done.\n")
    assert "Do this? [y/N]" in out
    assert running.refresh().seq == before


def test_who_has_said_yes_is_asked_again_when_the_stream_has_changed_meanwhile(
    call: Call, running: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Terminal):
        def readline(self, *size: Any) -> str:  # type: ignore[override]
            if self.tell() == 0:
                write(running, released(OLD, None, None))
            return super().readline(*size)

    monkeypatch.setattr(sys, "stdin", Slow("y\nn\n"))
    code, out, _ = call(act.stop)
    assert code == Exit.REFUSED
    assert "The stream has changed meanwhile." in out
    assert out.count("Do this?") == 2


def test_a_stop_is_followed_to_its_end_and_told_and_may_be_repeated(
    call: Call, running: ControlLog, stops: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, "y")
    code, out, _ = call(act.stop)
    assert code == Exit.DONE, out
    assert "Stopped: disk of w3. Every query stopped at a batch boundary: nothing is read again." in out
    state = running.refresh()
    request = list(state.requests.values())[-1]
    assert (state.phase, request.reason) == (StreamPhase.STOPPED, "disk of w3")
    assert request.by.startswith("person:")
    code, out, _ = call(act.stop, yes=True)
    assert code == Exit.DONE
    assert "Nothing to do: It was stopped by person:" in out
    assert running.refresh().seq == state.seq


def test_a_retirement_says_so_in_the_history(call: Call, running: ControlLog, stops: None) -> None:
    code, out, _ = call(act.retire, yes=True)
    assert code == Exit.DONE, out
    assert list(running.refresh().requests.values())[-1].reason == f"{FOR_GOOD}disk of w3"
    assert out.startswith("Retired for good: disk of w3.")


def test_what_was_cut_off_goes_on_when_the_command_is_given_again(
    call: Call, running: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = run_here._waited

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_here, "_waited", interrupted)
    code, _, err = call(act.stop, yes=True)
    assert code == Exit.UNKNOWN
    assert "Give the same command again" in err
    asked = running.refresh().open_request
    assert asked is not None

    monkeypatch.setattr(run_here, "_waited", wait)
    write(running, released(OLD, asked.id, None))
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
    code, out, _ = call(act.stop, yes=True)
    assert code == Exit.DONE, out
    assert len([each for each in running.refresh().requests.values() if each.to is None]) == 1


def test_a_control_log_that_does_not_answer_is_not_known(
    call: Call, running: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*given: Any, **more: Any) -> Any:
        raise ControlUnavailable("The folder hangs.", next_step="See to the file server.")

    monkeypatch.setattr(StreamHook, "observe", away)
    code, _, err = call(act.stop, yes=True)
    assert (code, err) == (Exit.UNKNOWN, "The folder hangs. See to the file server.\n")


def test_a_control_log_that_is_lost_in_the_middle_says_that_it_was_begun(
    call: Call, running: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*given: Any) -> Any:
        raise ControlUnavailable("The folder hangs.", next_step="See to the file server.")

    monkeypatch.setattr(run_here, "carry_out", away)
    code, _, err = call(act.stop, yes=True)
    assert code == Exit.UNKNOWN
    assert err.startswith("The folder hangs. See to the file server. What was asked for so far goes on.")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"reason": " "}, "There is no reason"),
        ({"reason": "password=hunter2hunter2"}, "looks like a secret"),
        ({"name": "nobody"}, "There is no stream nobody"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(call: Call, given: dict[str, str], says: str) -> None:
    code, out, err = call(act.stop, **given)
    assert (code, out) == (Exit.REFUSED, "")
    assert says in err
    assert "hunter2" not in err


def test_a_stream_whose_yaml_has_a_typo_is_stopped_all_the_same(
    call: Call, running: ControlLog, streams: Path, stops: None
) -> None:
    yaml = streams / "orders.yaml"
    yaml.write_text(yaml.read_text() + "lagg: {max_seconds: 10}\n")
    code, out, _ = call(act.stop, yes=True)
    assert code == Exit.DONE, out
    assert running.refresh().phase is StreamPhase.STOPPED

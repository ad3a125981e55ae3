"""The commands that act, on a real control log and with real waits; drivers are played, and the cluster notes."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.cli import act, upgrade_run
from airflow_stream_provider.cli.run_here import Exit, Ran
from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.hooks import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.hooks.stream_releases import StreamReleases
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.planning import requests
from airflow_stream_provider.planning.rewind import FoundRewind
from tests.support.control_root import new_log, published
from tests.support.noting_cluster import NotingCluster
from tests.support.played_drivers import PlayedDrivers
from tests.support.story import (
    HANDED_OVER,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    RUNNING,
    declared,
    fenced,
    requested,
    write,
)

Run = Callable[..., int]
# Nobody holds, and no driver is left but one that the cluster has to confirm gone.
DOWN = [*RUNNING, fenced(OLD)]


def kinds(log: ControlLog, since: int) -> list[str]:
    return [record.kind for record in log.records()[since:]]


def test_a_stop_ends_every_driver_and_says_who_asked_and_why(
    call: Run, control: str, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *RUNNING)
    with PlayedDrivers(control):
        assert call("stop") == Exit.DONE
    assert kinds(log, len(RUNNING)) == ["requested", "released", "retired"]
    asked = log.records()[len(RUNNING)]
    assert asked.by.startswith("person:")
    assert asked.by.endswith("/stop")
    assert asked["reason"] == "disk of w3"
    said = capsys.readouterr()
    assert "Stopped: disk of w3. Every query stopped at a batch boundary: nothing is read again." in said.out
    assert "waiting" in said.err
    assert "waiting" not in said.out
    assert call("stop") == Exit.DONE
    assert "Nothing to do: It was stopped by person:" in capsys.readouterr().out
    assert len(log.records()) == len(RUNNING) + 3


def test_a_stop_that_was_cut_off_goes_on_with_its_own_request(
    call: Run, control: str, log: ControlLog, cluster: NotingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *DOWN)
    cluster.error = ClusterError("The master does not answer.", next_step="Wait.")
    assert call("stop") == Exit.UNKNOWN
    assert "Give the same command again" in capsys.readouterr().err
    cluster.error = None
    assert call("stop") == Exit.DONE
    assert kinds(log, len(DOWN)).count("stopped") == 1


def test_a_restart_stops_and_starts_with_one_reason(call: Run, control: str, log: ControlLog) -> None:
    write(log, published(log, OLD_DEPLOYMENT), *RUNNING[1:])
    with PlayedDrivers(control):
        assert call("restart") == Exit.DONE
    state = log.refresh()
    assert state.holding_deployment is not None
    assert state.holding_deployment.id != OLD_DEPLOYMENT
    by = [record.by.rpartition("/")[2] for record in log.records() if record.by.startswith("person:")]
    assert set(by) == {"restart.stop", "restart.start"}


def test_a_start_makes_the_control_log_of_a_stream_that_never_ran(call: Run, control: str, tmp_path: Path) -> None:
    new_log(control, "another")
    with PlayedDrivers(control):
        assert call("start") == Exit.DONE
    assert open_log(control, "orders").refresh().holder is not None


def test_a_roll_back_gives_the_stream_to_the_release_before(
    call: Run, control: str, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *HANDED_OVER)
    with PlayedDrivers(control):
        assert call("roll-back") == Exit.DONE
    assert log.refresh().holder == OLD
    said = capsys.readouterr().out
    assert said.startswith("Rolled back: disk of w3.")
    assert f"{OLD_DEPLOYMENT} (release 1) holds the stream" in said


def test_whoever_asks_whether_a_roll_back_would_do_needs_no_reason(
    call: Run, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *HANDED_OVER)
    assert call("roll-back", dry_run=True, reason=None) == Exit.DONE
    said = capsys.readouterr().out
    assert f"orders is running: driver {NEW} with release 1" in said
    assert "Read again: nothing, as every query stops at a batch boundary." in said
    assert said.endswith("Dry run: nothing was done.\n")
    assert len(log.records()) == len(HANDED_OVER)


def test_a_release_is_called_off_before_it_holds(
    call: Run, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *PREPARED)
    assert call("abort") == Exit.DONE
    assert kinds(log, len(PREPARED)) == ["retired"]
    assert f"Called off: disk of w3. Ended: {NEW_DEPLOYMENT}." in capsys.readouterr().out
    assert log.refresh().holder == OLD
    assert call("abort") == Exit.DONE
    assert "Nothing to do: No new release comes up" in capsys.readouterr().out


def test_a_fence_goes_by_a_persons_word_where_the_cluster_is_gone(
    call: Run, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *RUNNING)
    cluster.error = ClusterError("The master does not answer.", next_step="Wait.")
    assert call("fence", confirmed_by="Ada") == Exit.DONE
    assert log.records()[-1]["evidence"] == {"person": "Ada"}


def test_a_retired_stream_is_stopped_for_good(
    call: Run, control: str, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *RUNNING)
    with PlayedDrivers(control):
        assert call("retire") == Exit.DONE
    asked = next(record for record in log.records()[len(RUNNING) :] if record.kind == "requested")
    assert asked["reason"] == "Retired for good: disk of w3"
    assert "Retired for good: disk of w3." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "records", "more", "says"),
    [
        ("stop", RUNNING, {"reason": None}, "There is no reason"),
        ("stop", RUNNING, {"reason": "password=hunter2"}, "looks like a secret"),
        ("stop", RUNNING, {"reason": "x" * 501}, "501 characters"),
        ("stop", RUNNING, {"yes": False}, "Nobody can be asked here."),
        ("stop", (), {}, "there is nothing to stop"),
        ("roll-back", RUNNING, {}, "No release is known that held before"),
        ("fence", RUNNING, {"confirmed_by": "x" * 101}, "cannot be used"),
        ("abort", DOWN, {"confirmed_by": "Ada"}, "Only a fence goes by a person's word"),
    ],
)
def test_what_cannot_be_done_is_refused_and_touches_nothing(
    call: Run,
    log: ControlLog,
    cluster: NotingCluster,
    capsys: pytest.CaptureFixture[str],
    name: str,
    records: list[Record],
    more: dict[str, Any],
    says: str,
) -> None:
    write(log, *records)
    assert call(name, **more) == Exit.REFUSED
    said = capsys.readouterr()
    assert says in said.out + said.err
    assert (len(log.records()), cluster.did) == (len(records), [])


def test_a_stop_that_misses_its_boundary_has_failed(
    call: Run, control: str, log: ControlLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requests, "ANSWER_SECONDS", 0.0)
    short = {"boundary_seconds": 1.0}
    write(log, Record("declared", {**RUNNING[0].fields, "policy": short}, "test", 100.0), *RUNNING[1:])
    with PlayedDrivers(control, deaf=True):
        assert call("stop") == Exit.FAILED
    assert "did not stop at a batch boundary in time and goes on" in capsys.readouterr().err


def test_what_a_program_gets_is_one_json_object(
    call: Run, control: str, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *RUNNING)
    assert call("stop", json=True, dry_run=True) == Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["stream"], found["outcome"], found["results"]) == ("orders", "dry_run", {})
    assert found["foreseen"]["held"]["driver"] == OLD
    assert call("stop", json=True, reason="") == Exit.REFUSED
    assert json.loads(capsys.readouterr().out)["foreseen"] is None
    with PlayedDrivers(control):
        assert call("stop", json=True) == Exit.DONE
    assert json.loads(capsys.readouterr().out)["results"]["stop"]["stopped"] is True


def test_a_person_is_asked_and_may_say_no(
    call: Run, log: ControlLog, asked: list[Callable[[], str]], capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *RUNNING)
    asked.append(lambda: "n")
    assert call("fence", yes=False, confirmed_by="Ada") == Exit.REFUSED
    said = capsys.readouterr()
    assert f"{OLD} counts as dead by the word of Ada" in said.out
    assert "Nothing was done." in said.err
    assert len(log.records()) == len(RUNNING)


def test_who_holds_by_now_is_shown_before_it_is_done(
    call: Run, log: ControlLog, asked: list[Callable[[], str]], capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *RUNNING)

    def upgraded_meanwhile() -> str:
        write(log, *HANDED_OVER[len(RUNNING) :])
        return "y"

    asked += [upgraded_meanwhile, lambda: "yes"]
    assert call("fence", yes=False, confirmed_by="Ada") == Exit.DONE
    said = capsys.readouterr().out
    assert "The stream has changed meanwhile." in said
    assert said.index(f"{NEW} counts as dead") > said.index("has changed")
    assert log.records()[-1]["incarnation"] == NEW


@pytest.mark.parametrize("key", [KeyboardInterrupt, EOFError])
def test_ctrl_c_and_ctrl_d_say_what_becomes_of_what_was_asked_for(
    call: Run,
    log: ControlLog,
    asked: list[Callable[[], str]],
    capsys: pytest.CaptureFixture[str],
    key: type[BaseException],
) -> None:
    write(log, *RUNNING)

    def interrupted() -> str:
        raise key

    asked.append(interrupted)
    assert call("stop", yes=False) == Exit.UNKNOWN
    assert "Interrupted. Nothing was done." in capsys.readouterr().err


def test_a_stream_whose_yaml_is_broken_can_be_stopped_and_not_started(
    call: Run, control: str, tmp_path: Path, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *RUNNING)
    yaml = tmp_path / "dags" / "streams" / "orders.yaml"
    yaml.write_text(yaml.read_text() + "versoin: 2\n")
    assert call("restart") == Exit.REFUSED
    assert "versoin: there is no such field" in "".join(capsys.readouterr())
    with PlayedDrivers(control):
        assert call("stop") == Exit.DONE
    assert log.refresh().holder is None


class PlayedRun:
    """The run of an upgrade, as Airflow would carry it out; see `UpgradeRun`."""

    def __init__(self, run_id: str = "", problem: str = "", ran: Ran | None = None) -> None:
        self.dag_id, self.run_id, self.problem = "orders__upgrade", run_id, problem
        self.ran = ran or Ran(Exit.DONE, {"run": "r", "state": "success"})
        self.asked: list[tuple[str, ...]] = []
        self.conf: dict[str, str] = {}
        self.seq = -1

    def of(self, stream: str, who: str, reason: str, digits: str, *, seq: int, rewinds: bool = False) -> PlayedRun:
        self.seq = seq
        self.asked.append((stream, reason, digits, *(("rewinds",) if rewinds else ())))
        return self

    def carry_out(self, hook: StreamHook, conf: dict[str, str], say: Callable[..., None]) -> Ran:
        self.conf = conf
        assert hook.append(
            "retired", "airflow:orders__upgrade/r/make_room", hook.observe().state.seq, deployment=NEW_DEPLOYMENT
        )
        return dataclasses.replace(self.ran, snapshot=hook.observe())


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., PlayedRun]:
    """Play a run; with `same`, what holds after it is what the YAML says."""

    def play(*, same: bool | None = None, **how: Any) -> PlayedRun:
        run = PlayedRun(**how)
        monkeypatch.setattr(upgrade_run, "UpgradeRun", run)
        if same is not None:
            monkeypatch.setattr(act, "compare", lambda spec: SimpleNamespace(same=same))
        return run

    return play


def test_an_upgrade_is_a_run_of_airflow(
    call: Run, log: ControlLog, play: Callable[..., PlayedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *PREPARED)
    run = play(same=True)
    assert call("upgrade", dry_run=True, reason=None) == Exit.DONE
    assert "A driver of the YAML's release 1 (" in capsys.readouterr().out
    assert run.conf == {}
    assert run.seq == log.refresh().seq
    assert call("upgrade") == Exit.DONE
    assert run.asked == [("orders", "", ""), ("orders", "disk of w3", "")], "what was shown is what is carried out"
    assert run.conf == {"release": "", "reason": "disk of w3"}
    assert "Upgraded: disk of w3. Run r ended well. It was driver" in capsys.readouterr().out


def test_an_upgrade_that_fails_has_begun(
    call: Run, log: ControlLog, play: Callable[..., PlayedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *PREPARED)
    play(ran=Ran(Exit.FAILED, {"run": "r", "state": "failed"}, "Run r failed (soak)."))
    assert call("upgrade", json=True) == Exit.FAILED
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["said"]) == ("failed", "Run r failed (soak).")
    assert found["results"] == {"upgrade": {"run": "r", "state": "failed"}}


def test_what_an_earlier_command_has_started_is_followed(
    call: Run, log: ControlLog, play: Callable[..., PlayedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in the middle of its hand-over, where nothing new may begin."""
    write(log, *PREPARED, declared("orders-3-cccc"), requested("up", NEW))
    play(run_id="r")
    assert call("upgrade", dry_run=True) == Exit.DONE
    assert "Run r of orders__upgrade, which was asked for before, is under way." in capsys.readouterr().out
    play(problem="An upgrade is under way already: run x.")
    assert call("upgrade", dry_run=True) == Exit.REFUSED
    assert "The request for" in capsys.readouterr().out


@pytest.mark.parametrize("followed", ["r", ""])
def test_a_run_that_has_deployed_something_else_than_the_yaml_says_is_no_success(
    call: Run, log: ControlLog, play: Callable[..., PlayedRun], capsys: pytest.CaptureFixture[str], followed: str
) -> None:
    """One that is followed had begun before; one that is started goes by the form as Airflow has read it last."""
    write(log, *PREPARED)
    play(run_id=followed)
    assert call("upgrade") == Exit.FAILED
    said = "Run r has deployed something else than was asked for. orders-1-aaaa (release 1) holds the stream."
    assert said in capsys.readouterr().err


def test_what_airflow_cannot_start_is_refused(
    call: Run, log: ControlLog, play: Callable[..., PlayedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *RUNNING)
    play(problem="The DAG orders__upgrade is paused.")
    assert call("upgrade") == Exit.REFUSED
    assert "Refused: The DAG orders__upgrade is paused." in capsys.readouterr().out
    assert len(log.records()) == len(RUNNING)


def test_a_stored_release_is_redeployed(
    call: Run, log: ControlLog, play: Callable[..., PlayedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    stored = published(log, "orders-1-dddd")
    write(log, stored, *PREPARED)
    release = stored["release"]["hash"]
    run = play(ran=Ran(Exit.DONE, {"run": "r", "state": "success", "deployment": "orders-1-dddd"}))
    assert call("redeploy", release="ffff") == Exit.REFUSED
    assert f"Those that are there, newest first: 1 ({release[:12]})" in capsys.readouterr().out
    assert call("redeploy", release=release[:7]) == Exit.DONE
    assert run.conf == {"release": release, "reason": "disk of w3"}
    assert "Redeployed: disk of w3. Run r ended well." in capsys.readouterr().out


WANTED = {"to": 1767323040.0, "queries": {"a": {"orders": {"0": 7}}}}


@pytest.mark.parametrize(
    ("text", "to", "query", "code", "said"),
    [
        ("2026-01-02T03:04", 1767323040.0, None, Exit.DONE, "Rewound: disk of w3. Run r ended well."),
        ("2026-01-02T03:04", 1767323040.0, "b", Exit.FAILED, "a read again since 2026-01-02 03:04:00 UTC"),
        ("2026-01-02T03:05", 1767323100.0, None, Exit.FAILED, "a read again since 2026-01-02 03:04:00 UTC"),
    ],
)
def test_a_rewind_is_a_run_of_airflow_with_what_was_shown(
    text: str,
    to: float,
    query: str | None,
    code: Exit,
    said: str,
    call: Run,
    log: ControlLog,
    play: Callable[..., PlayedRun],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = PREPARED[0]
    newer = {"release": {**first["release"], "format": 2}}
    for each in PREPARED:
        if each.kind == "declared":  # the second one is what the run has declared
            more = {"rewind": WANTED} if each is not first else {}
            each = dataclasses.replace(each, fields={**each.fields, **newer, **more})
        write(log, each)
    looked: list[tuple[float | None, str]] = []

    def find(hook: StreamHook, snapshot: object, to: float | None, query: str) -> FoundRewind:
        looked.append((to, query))
        return FoundRewind(WantedRewind(to or 0.0, {"a": {"orders": {0: 7}}}), ("a: 3 records of orders.",))

    monkeypatch.setattr(look_ahead, "find_rewind", find)
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: {})
    log.beat(OLD, Heartbeat(at=time.time()))
    run = play(ran=Ran(Exit.DONE, {"run": "r", "state": "success", "deployment": NEW_DEPLOYMENT}))
    assert call("rewind", to="soon", query=None) == Exit.REFUSED
    assert "'soon' is no time in the past." in capsys.readouterr().err
    assert call("rewind", to="2h", query="a", dry_run=True, reason=None) == Exit.DONE
    assert "Read again: a: 3 records of orders." in capsys.readouterr().out
    assert run.conf == {}
    assert call("rewind", to=text, query=query) == code, "the run has done what WANTED says"
    assert looked[-1] == (to, query or "")
    assert run.asked[-1] == ("orders", "disk of w3", "", "rewinds")
    assert run.conf == {
        "release": first["release"]["hash"],
        "reason": "disk of w3",
        "rewind": json.dumps({**WANTED, "to": to}),
    }
    assert said in "".join(capsys.readouterr())


def test_a_run_that_has_deployed_another_stored_release_is_no_success(
    call: Run, log: ControlLog, play: Callable[..., PlayedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    stored = published(log, "orders-1-dddd")
    write(log, stored, *PREPARED)
    play(ran=Ran(Exit.DONE, {"run": "r", "state": "success", "deployment": NEW_DEPLOYMENT}))
    assert call("redeploy", release=stored["release"]["hash"]) == Exit.FAILED
    assert "Run r has deployed something else than was asked for." in capsys.readouterr().err


def test_a_standby_is_promoted(call: Run, control: str, log: ControlLog, capsys: pytest.CaptureFixture[str]) -> None:
    write(log, *PREPARED)
    with PlayedDrivers(control):
        assert call("promote") == Exit.DONE
    assert log.refresh().holder == NEW
    assert list(log.refresh().requests.values())[-1].reason == "disk of w3"
    assert "Promoted: disk of w3." in capsys.readouterr().out
    assert call("promote") == Exit.DONE
    assert "Nothing to do: No new release stands by." in capsys.readouterr().out

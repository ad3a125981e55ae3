"""Upgrades, redeployments and rewinds by command: each is a run of Airflow, which is played; the log is real."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.cli import act, upgrade_run
from airflow_stream_provider.cli.run_here import Exit, Ran
from airflow_stream_provider.hooks import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.hooks.stream_releases import StreamReleases
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.rewind import FoundRewind
from tests.support.commands import Here
from tests.support.control_root import published
from tests.support.snapshots import BOTH, RUNNING
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, declared, requested, write


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
            "retired", "airflow:orders__upgrade/r/submit", hook.observe().state.seq, deployment=NEW_DEPLOYMENT
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


def test_an_upgrade_is_a_run_of_airflow(here: Here, play: Callable[..., PlayedRun]) -> None:
    write(here.log, *BOTH)
    run = play(same=True)
    assert here.call("upgrade", dry_run=True, reason=None) == Exit.DONE
    assert "A driver of the YAML's release 1 (" in here.said().out
    assert run.conf == {}
    assert run.seq == here.log.refresh().seq
    assert here.call("upgrade") == Exit.DONE
    assert run.asked == [("orders", "", ""), ("orders", "disk of w3", "")], "what was shown is what is carried out"
    assert run.conf == {"release": "", "reason": "disk of w3"}
    assert "Upgraded: disk of w3. Run r ended well. It was driver" in here.said().out


def test_an_upgrade_that_fails_has_begun(here: Here, play: Callable[..., PlayedRun]) -> None:
    write(here.log, *BOTH)
    play(ran=Ran(Exit.FAILED, {"run": "r", "state": "failed"}, "Run r failed (soak)."))
    assert here.call("upgrade", json=True) == Exit.FAILED
    found = json.loads(here.said().out)
    assert (found["outcome"], found["said"]) == ("failed", "Run r failed (soak).")
    assert found["results"] == {"upgrade": {"run": "r", "state": "failed"}}


@pytest.mark.parametrize("operation", ["upgrade", "redeploy"])
def test_what_holds_already_needs_no_run(
    here: Here, play: Callable[..., PlayedRun], monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Found by a system test: an operation that only runs carry out has no operator to look for."""
    write(here.log, *RUNNING)
    run = play(same=True)
    said = "Release 1 holds the stream already."
    done = Foreseen("orders", Operation(operation), "running", None, holds=True, done=said)
    monkeypatch.setattr(act, "look_ahead", lambda *_, **__: done)
    assert here.call(operation, release="") == Exit.DONE
    assert said in here.said().out
    assert run.conf == {}


def test_what_an_earlier_command_has_started_is_followed(here: Here, play: Callable[..., PlayedRun]) -> None:
    """Also in the middle of its hand-over."""
    write(here.log, *BOTH, declared("orders-3-cccc"), requested("up", NEW))
    play(run_id="r")
    assert here.call("upgrade", dry_run=True) == Exit.DONE
    assert "Run r of orders__upgrade, which was asked for before, is under way." in here.said().out
    play(problem="An upgrade is under way already: run x.")
    assert here.call("upgrade", dry_run=True) == Exit.REFUSED
    assert "An upgrade is under way already: run x." in here.said().out


@pytest.mark.parametrize("followed", ["r", ""])
def test_a_run_that_has_deployed_something_else_than_the_yaml_says_is_no_success(
    here: Here, play: Callable[..., PlayedRun], followed: str
) -> None:
    """One that is followed had begun before; one that is started goes by the form as Airflow has read it last."""
    write(here.log, *BOTH)
    play(run_id=followed)
    assert here.call("upgrade") == Exit.FAILED
    said = "Run r has deployed something else than was asked for. orders-1-aaaa (release 1) holds the stream."
    assert said in here.said().err


def test_what_airflow_cannot_start_is_refused(here: Here, play: Callable[..., PlayedRun]) -> None:
    write(here.log, *RUNNING)
    play(problem="The DAG orders__upgrade is paused.")
    assert here.call("upgrade") == Exit.REFUSED
    assert "Refused: The DAG orders__upgrade is paused." in here.said().out
    assert len(here.log.records()) == len(RUNNING)


def test_a_stored_release_is_redeployed(here: Here, play: Callable[..., PlayedRun]) -> None:
    stored = published(here.log, "orders-1-dddd")
    write(here.log, stored, *BOTH)
    release = stored["release"]["hash"]
    run = play(ran=Ran(Exit.DONE, {"run": "r", "state": "success", "deployment": "orders-1-dddd"}))
    assert here.call("redeploy", release="ffff") == Exit.REFUSED
    assert f"Those that are there, newest first: 1 ({release[:12]})" in here.said().out
    assert here.call("redeploy", release=release[:7]) == Exit.DONE
    assert run.conf == {"release": release, "reason": "disk of w3"}
    assert "Redeployed: disk of w3. Run r ended well." in here.said().out


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
    here: Here,
    text: str,
    to: float,
    query: str | None,
    code: Exit,
    said: str,
    play: Callable[..., PlayedRun],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = next(each for each in BOTH if each.kind == "declared")
    for each in BOTH:
        if each.kind == "declared":  # the second one is what the run has declared
            more = {"rewind": WANTED} if each is not first else {}
            each = dataclasses.replace(each, fields={**each.fields, **more})
        write(here.log, each)
    looked: list[tuple[float | None, str]] = []

    def find(hook: StreamHook, snapshot: object, to: float | None, query: str, ceilings: object) -> FoundRewind:
        looked.append((to, query))
        return FoundRewind(WantedRewind(to or 0.0, {"a": {"orders": {0: 7}}}), ("a: 3 records of orders.",))

    monkeypatch.setattr(look_ahead, "find_rewind", find)
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: {})
    here.log.beat(OLD, Heartbeat(at=time.time()))
    run = play(ran=Ran(Exit.DONE, {"run": "r", "state": "success", "deployment": NEW_DEPLOYMENT}))
    assert here.call("rewind", to="soon", query=None) == Exit.REFUSED
    assert "'soon' is no time in the past." in here.said().err
    assert here.call("rewind", to="2h", query="a", dry_run=True, reason=None) == Exit.DONE
    assert "Read again: a: 3 records of orders." in here.said().out
    assert run.conf == {}
    assert here.call("rewind", to=text, query=query) == code, "the run has done what WANTED says"
    assert looked[-1] == (to, query or "")
    assert run.asked[-1] == ("orders", "disk of w3", "", "rewinds")
    assert run.conf == {
        "release": first["release"]["hash"],
        "reason": "disk of w3",
        "rewind": json.dumps({**WANTED, "to": to, "held": OLD_DEPLOYMENT}),
    }
    assert said in "".join(here.said())


def test_a_run_that_has_deployed_another_stored_release_is_no_success(
    here: Here, play: Callable[..., PlayedRun]
) -> None:
    stored = published(here.log, "orders-1-dddd")
    write(here.log, stored, *BOTH)
    play(ran=Ran(Exit.DONE, {"run": "r", "state": "success", "deployment": NEW_DEPLOYMENT}))
    assert here.call("redeploy", release=stored["release"]["hash"]) == Exit.FAILED
    assert "Run r has deployed something else than was asked for." in here.said().err

"""Every operation by hand on a stream that a real Airflow runs: by the form, and by the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.wish import Goal
from tests.support.airflow_world import Run, World

ROOT = Path(__file__).parents[3]


def by_form(world: World, operation: str, answer: str | None = None, **more: Any) -> Run:
    """Trigger the form, as a person does; `answer`: to the question, else nobody is asked."""
    conf = {"operation": operation, "reason": f"to {operation}", "ask": answer is not None, **more}
    command: dict[str, Any] = {} if answer is None else {"answer": answer}
    return world.airflow.run(
        dag=f"{world.name}__operate", logical_date=datetime.now(UTC).isoformat(), conf=conf, **command
    )


def by_command(world: World, *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code of `airflow streams`, and the JSON that was printed."""
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("worker.py")),
            "streams",
            *words,
            "--reason",
            "by hand",
            "--json",
        ],
        env=world.airflow.environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_a_stream_is_operated_by_its_form(world: World) -> None:
    world.deploy("1")
    no = by_form(world, "stop", answer="Reject")
    assert no.state == "failed"
    assert "anna said no: nothing was done." in no.log
    assert world.version == "1"

    stopped = by_form(world, "stop", answer="Approve")
    assert stopped.state == "success", stopped.log[-8000:]
    assert {task: stopped.states[task] for task in ("stop", "roll-back", "fence", "start")} == {
        "stop": "success",
        "roll-back": "skipped",
        "fence": "skipped",
        "start": "skipped",
    }
    assert stopped.result("tell").startswith("Stopped: to stop. Every query stopped at a batch boundary")
    assert world.state.phase.value == "stopped"
    assert not world.drivers()

    again = by_form(world, "stop")
    assert again.state == "success", again.log[-8000:]
    assert again.result("tell").startswith("Nothing to do (stop): It was stopped by ")

    refused = by_form(world, "roll-back")
    assert refused.state == "failed"
    assert "Refused, and nothing was touched" in refused.log

    started = by_form(world, "start")
    assert started.state == "success", started.log[-8000:]
    assert world.version == "1"
    restarted = by_form(world, "restart")
    assert restarted.state == "success", restarted.log[-8000:]
    assert (restarted.states["restart"], restarted.states["stop"]) == ("success", "skipped")
    assert len(world.drivers()) == 1

    fenced = by_form(world, "fence")
    assert fenced.state == "success", fenced.log[-8000:]
    assert "Confirmed dead: " in fenced.result("tell")
    assert not world.drivers()
    world.assert_sound()


def test_a_job_is_adopted_by_the_form_and_a_persons_word(world: World) -> None:
    """Here nothing runs beside it: `tests/system/test_adopt.py` has a job under load."""
    for answer, says in (("Reject", "anna said no: nothing was adopted"), ("cancel", "")):
        no = by_form(world, "adopt", answer=answer, ask=False)
        assert (no.state, no.states["job_ended"], no.states["discard"]) == ("failed", "failed", "failed")
        assert "did not take over, and is ended" in no.log
        assert says in no.log
        assert world.state.holder is None
        world.until("the driver's end", lambda: not world.drivers())

    yes = by_form(world, "adopt", answer="Approve", ask=False)
    assert yes.state == "success", yes.log[-8000:]
    assert {task: yes.states[task] for task in ("stand_by", "job_ended", "adopt", "stop")} == {
        "stand_by": "success",
        "job_ended": "success",
        "adopt": "success",
        "stop": "skipped",
    }
    assert world.version == "1"
    (asked,) = (record for record in world.log.records() if record.kind == "requested")
    assert (asked["reason"], asked["evidence"]) == ("to adopt", {"person": "anna"})
    assert yes.result("tell").startswith("Adopted: to adopt. ")
    assert len(world.drivers()) == 1

    again = by_form(world, "adopt")
    assert again.state == "failed"
    assert "There is nothing to adopt" in again.log
    world.assert_sound()


@pytest.mark.system  # eight commands, and each imports Airflow
def test_a_stream_is_operated_from_the_command_line(world: World) -> None:
    world.deploy("1")
    world.upgrade("2")
    assert world.version == "2"
    code, found = by_command(world, "roll-back", world.name, "--dry-run")
    assert (code, found["outcome"]) == (0, "dry_run")
    code, found = by_command(world, "roll-back", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done"), found
    assert world.version == "1"
    code, found = by_command(world, "roll-back", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done_already"), found

    code, found = by_command(world, "restart", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done"), found
    code, found = by_command(world, "fence", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done"), found
    code, found = by_command(world, "start", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done"), found
    assert len(world.drivers()) == 1
    code, found = by_command(world, "retire", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done"), found
    assert not world.drivers()
    wish = world.state.wish
    assert wish is not None
    assert (wish.goal, wish.reason) == (Goal.LEAVE, "by hand")
    code, found = by_command(world, "retire", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done_already"), found
    world.assert_sound()


def test_a_standby_is_promoted_by_form_and_command(world: World) -> None:
    """As after an upgrade whose Airflow has died between rehearsal and hand-over."""
    world.deploy("1")
    assert world.by_hand("submit", version="2").state == "success"
    assert world.version == "1"
    promoted = by_form(world, "promote", answer="Approve")
    assert promoted.state == "success", promoted.log[-8000:]
    assert world.version == "2"
    assert promoted.result("tell").startswith("Promoted: to promote.")
    assert world.by_hand("submit", version="3").state == "success"
    code, found = by_command(world, "promote", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done"), found
    assert world.version == "3"
    code, found = by_command(world, "promote", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done_already"), found
    world.assert_sound()


def test_an_upgrade_by_the_form_is_a_run_of_its_own_dag_and_a_redeployment_too(world: World) -> None:
    """No scheduler is here: what was triggered is carried out by the test. See also test_operate_upgrades.py."""
    world.deploy("1")
    same = by_form(world, "upgrade")
    assert same.state == "success", same.log[-8000:]
    assert "runs already, just as it is asked for" in same.result("tell")
    digits = next(iter(world.state.deployments.values())).release.hash[:6]
    world.write("other")
    world.upgrade("2")
    refused = by_form(world, "redeploy", release="ffff")
    assert refused.state == "failed"
    assert "Those that are there, newest first: 2 (" in refused.log
    assert f", 1 ({digits}" in refused.log
    asked = by_form(world, "redeploy", release=digits)
    assert asked.state == "success", asked.log[-8000:]
    (run,) = [
        each for each in asked.other_runs if each["dag"] == f"{world.name}__upgrade" and each["conf"].get("release")
    ]
    assert run["conf"] == {"release": run["conf"]["release"], "reason": "to redeploy", "rewind": ""}
    assert run["conf"]["release"].startswith(digits)
    assert asked.result("tell").startswith("Asked to redeploy: to redeploy. Run operate__")
    world.application.unlink()
    redeployed = world.upgrade("whatever", conf=run["conf"])
    assert redeployed.state == "success", redeployed.log[-8000:]
    assert world.version == "1"
    world.assert_sound()


@pytest.mark.system
def test_a_release_that_cannot_go_on_from_the_checkpoint_is_no_way_back(world: World) -> None:
    """Its warm driver has died as well: it is found out, and the release is rehearsed anew before anything stops."""
    flag = world.folder / "refuses"
    behaviour = f"'refuse' if Path({str(flag)!r}).exists() else ''"
    world.application.write_text(f"from pathlib import Path\nQUERIES = ('enrich', 'totals')\nBEHAVIOUR = {behaviour}\n")
    world.deploy("1")
    (old,) = world.drivers()
    world.write()
    assert world.upgrade("2").state == "success"
    flag.touch()
    os.kill(old, signal.SIGKILL)
    code, found = by_command(world, "roll-back", world.name, "--yes")
    assert (code, found["outcome"]) == (2, "failed"), found
    assert "Spark refuses the plan" in found["said"]
    assert world.version == "2"
    assert len(world.drivers()) == 1
    flag.unlink()
    code, found = by_command(world, "roll-back", world.name, "--yes")
    assert (code, found["outcome"]) == (0, "done"), found
    assert world.version == "1"
    world.assert_sound()

"""The commands that act, on a real control log and with real waits; drivers are played, and the cluster notes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.cli import act
from airflow_stream_provider.cli.run_here import Exit
from airflow_stream_provider.control import ControlLog, FilesRoot, open_log
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning import request, retire
from tests.support.commands import Here
from tests.support.control_root import new_log, published
from tests.support.played_drivers import PlayedDrivers
from tests.support.snapshots import BOTH, RUNNING, UPGRADED
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, declared, fenced, write

# Nobody holds, and no driver is left but one that the cluster has to confirm gone.
DOWN = [*RUNNING, fenced(OLD)]


def kinds(log: ControlLog, since: int) -> list[str]:
    return [record.kind for record in log.records()[since:]]


def test_a_stop_ends_every_driver_and_says_who_asked_and_why(here: Here) -> None:
    write(here.log, *RUNNING)
    with PlayedDrivers(here.control):
        assert here.call("stop") == Exit.DONE
    assert kinds(here.log, len(RUNNING)) == ["wanted", "requested", "released", "retired"]
    asked = here.log.records()[len(RUNNING)]
    assert asked.by.startswith("person:")
    assert asked.by.endswith("/stop")
    assert asked["reason"] == "disk of w3"
    said = here.said()
    assert "Stopped: disk of w3. Every query stopped at a batch boundary: nothing is read again." in said.out
    assert "After record" in said.err, "each step"
    assert f"{OLD} stops at a batch boundary, within" in said.err, "it is said though nobody is asked"
    assert "After record" not in said.out
    assert here.call("stop") == Exit.DONE
    assert "Nothing to do: It was stopped by person:" in here.said().out
    assert len(here.log.records()) == len(RUNNING) + 4


def test_a_stop_that_was_cut_off_goes_on_with_its_own_request(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retire, "GRACE_SECONDS", 1.0)
    write(here.log, *DOWN)
    here.cluster.error = ClusterError("The master does not answer.", next_step="Wait.")
    assert here.call("stop") == Exit.UNKNOWN
    assert "Give the same command again" in here.said().err
    here.cluster.error = None
    assert here.call("stop") == Exit.DONE
    assert kinds(here.log, len(DOWN)) == ["wanted", "retired"]


def test_a_restart_stops_and_starts_with_one_reason(here: Here) -> None:
    release = published(here.log, OLD_DEPLOYMENT)["release"]
    write(here.log, RUNNING[0], declared(OLD_DEPLOYMENT, "old", release=release), *RUNNING[2:])
    with PlayedDrivers(here.control):
        assert here.call("restart") == Exit.DONE
    state = here.log.refresh()
    assert state.holding_deployment is not None
    assert state.holding_deployment.id != OLD_DEPLOYMENT
    by = [record.by.rpartition("/")[2] for record in here.log.records() if record.by.startswith("person:")]
    assert set(by) == {"restart"}
    assert kinds(here.log, len(RUNNING)).count("wanted") == 1


def test_a_start_makes_the_control_log_of_a_stream_that_never_ran(here: Here, tmp_path: Path) -> None:
    new_log(here.control, "another")
    with PlayedDrivers(here.control):
        assert here.call("start") == Exit.DONE
    assert open_log(here.control, "orders").refresh().holder is not None


def test_a_roll_back_gives_the_stream_to_the_release_before(here: Here) -> None:
    write(here.log, *UPGRADED)
    with PlayedDrivers(here.control):
        assert here.call("roll-back") == Exit.DONE
    assert here.log.refresh().holder == OLD
    said = here.said().out
    assert said.startswith("Rolled back: disk of w3.")
    assert f"{OLD_DEPLOYMENT} (release 1) holds the stream" in said


def test_whoever_asks_whether_a_roll_back_would_do_needs_no_reason(here: Here) -> None:
    write(here.log, *UPGRADED)
    assert here.call("roll-back", dry_run=True, reason=None) == Exit.DONE
    said = here.said().out
    assert f"orders is running: driver {NEW} with release 1" in said
    assert "Read again: nothing, as every query stops at a batch boundary." in said
    assert said.endswith("Dry run: nothing was done.\n")
    assert len(here.log.records()) == len(UPGRADED)


def test_a_release_is_called_off_before_it_holds(here: Here) -> None:
    write(here.log, *BOTH)
    with PlayedDrivers(here.control):
        assert here.call("abort") == Exit.DONE
    assert kinds(here.log, len(BOTH)) == ["wanted", "retired"]
    assert f"Called off: disk of w3. Ended: {NEW_DEPLOYMENT}." in here.said().out
    assert here.log.refresh().holder == OLD
    with PlayedDrivers(here.control):
        assert here.call("abort") == Exit.DONE
    assert "Nothing to do: No new release comes up" in here.said().out


def test_a_fence_goes_by_a_persons_word_where_the_cluster_is_gone(here: Here) -> None:
    write(here.log, *RUNNING)
    here.cluster.error = ClusterError("The master does not answer.", next_step="Wait.")
    assert here.call("fence", confirmed_by="Ada") == Exit.DONE
    assert here.log.records()[-1]["evidence"] == {"person": "Ada"}


def test_a_retired_stream_is_stopped_for_good(here: Here) -> None:
    write(here.log, *RUNNING)
    with PlayedDrivers(here.control):
        assert here.call("retire") == Exit.DONE
    wish = here.log.records()[len(RUNNING)]
    assert (wish["goal"], wish["reason"]) == ("leave", "disk of w3")
    assert "Retired for good: disk of w3." in here.said().out


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
    here: Here, name: str, records: list[Record], more: dict[str, Any], says: str
) -> None:
    write(here.log, *records)
    assert here.call(name, **more) == Exit.REFUSED
    said = here.said()
    assert says in said.out + said.err
    assert (len(here.log.records()), here.cluster.did) == (len(records), [])


def test_a_stop_that_misses_its_boundary_has_failed(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "ANSWER_SECONDS", 0.0)
    short = {"boundary_seconds": 1.0}
    write(here.log, RUNNING[0], declared(OLD_DEPLOYMENT, "old", policy=short), *RUNNING[2:])
    with PlayedDrivers(here.control, deaf=True):
        assert here.call("stop") == Exit.FAILED
    said = here.said().err
    assert "did not stop at a batch boundary in time and goes on" in said
    # Not `boundary_seconds`: the driver has those that it was deployed with, and no upgrade gets past that batch.
    assert "If it must not write now, fence it (`airflow streams fence`)" in said


def test_what_a_program_gets_is_one_json_object(here: Here) -> None:
    write(here.log, *RUNNING)
    assert here.call("stop", json=True, dry_run=True) == Exit.DONE
    found = json.loads(here.said().out)
    assert (found["stream"], found["outcome"], found["results"]) == ("orders", "dry_run", {})
    assert found["foreseen"]["held"]["driver"] == OLD
    assert here.call("stop", json=True, reason="") == Exit.REFUSED
    assert json.loads(here.said().out)["foreseen"] is None
    with PlayedDrivers(here.control):
        assert here.call("stop", json=True) == Exit.DONE
    assert json.loads(here.said().out)["results"]["stop"]["stopped"] is True


def test_a_person_is_asked_and_may_say_no(here: Here, asked: list[Callable[[], str]]) -> None:
    write(here.log, *RUNNING)
    asked.append(lambda: "n")
    assert here.call("fence", yes=False, confirmed_by="Ada") == Exit.REFUSED
    said = here.said()
    assert f"{OLD} counts as dead by the word of Ada" in said.out
    assert "Nothing was done." in said.err
    assert len(here.log.records()) == len(RUNNING)


def test_who_holds_by_now_is_shown_before_it_is_done(here: Here, asked: list[Callable[[], str]]) -> None:
    write(here.log, *RUNNING)

    def upgraded_meanwhile() -> str:
        write(here.log, *UPGRADED[len(RUNNING) :])
        return "y"

    asked += [upgraded_meanwhile, lambda: "yes"]
    assert here.call("fence", yes=False, confirmed_by="Ada") == Exit.DONE
    said = here.said().out
    assert "The stream has changed meanwhile." in said
    assert said.index(f"{NEW} counts as dead") > said.index("has changed")
    assert here.log.records()[-1]["incarnation"] == NEW


@pytest.mark.parametrize("key", [KeyboardInterrupt, EOFError])
def test_ctrl_c_and_ctrl_d_say_what_becomes_of_what_was_asked_for(
    here: Here, asked: list[Callable[[], str]], key: type[BaseException]
) -> None:
    write(here.log, *RUNNING)

    def interrupted() -> str:
        raise key

    asked.append(interrupted)
    assert here.call("stop", yes=False) == Exit.UNKNOWN
    assert "Interrupted. Nothing was done." in here.said().err


def test_a_stream_whose_yaml_is_broken_can_be_stopped_and_not_started(here: Here, tmp_path: Path) -> None:
    write(here.log, *RUNNING)
    yaml = tmp_path / "dags" / "streams" / "orders.yaml"
    yaml.write_text(yaml.read_text() + "versoin: 2\n")
    assert here.call("restart") == Exit.REFUSED
    assert "versoin: there is no such field" in "".join(here.said())
    assert here.call("stop", control=None) == Exit.REFUSED
    assert "Where a stream runs on without a YAML: --control URL." in "".join(here.said())
    note = {"file": "orders.yaml", "watch": "streams__watch", "stream": {"cluster": "spark_default"}}
    FilesRoot(here.control).note("orders", json.dumps(note).encode())
    with PlayedDrivers(here.control):
        assert here.call("stop", control=here.control) == Exit.DONE
    assert here.log.refresh().holder is None
    assert here.call("stop", control=f"{here.control}/nowhere") == Exit.UNKNOWN


def test_a_standby_is_promoted(here: Here) -> None:
    write(here.log, *BOTH)
    with PlayedDrivers(here.control):
        assert here.call("promote") == Exit.DONE
    assert here.log.refresh().holder == NEW
    assert list(here.log.refresh().requests.values())[-1].reason == "disk of w3"
    assert "Promoted: disk of w3." in here.said().out
    assert here.call("promote") == Exit.DONE
    assert "Nothing to do: No new release stands by." in here.said().out


@pytest.mark.parametrize(("begun", "says"), [(False, "Nothing was done."), (True, "Give the same command again")])
def test_an_error_that_nobody_thought_of_does_not_say_that_nothing_was_touched(
    here: Here, begun: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own exit code for it is 1, which is that of a refusal."""
    write(here.log, *RUNNING)

    def fails(*given: object, **more: object) -> None:
        raise LookupError("nobody thought of this")

    monkeypatch.setattr(act, "run_here" if begun else "look_ahead", fails)
    assert here.call("stop", json=True) == Exit.UNKNOWN
    said = here.said()
    found = json.loads(said.out)
    assert found["outcome"] == "unknown"
    assert found["said"].startswith("This command itself has failed (LookupError).")
    assert says in found["said"]
    assert "nobody thought of this" in said.err

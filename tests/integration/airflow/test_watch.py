"""The watch in a real Airflow: it brings back what died, and leaves alone what a person stopped."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_stream_provider.control.files_root import SampleFile
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.causes import FAILING_SECONDS
from airflow_stream_provider.monitoring.life import What, life
from airflow_stream_provider.monitoring.trends import Trace
from devstack.control_folder import folder_of
from tests.support.airflow_world import Run, World


def kill(world: World) -> None:
    for pid in world.drivers():
        os.kill(pid, signal.SIGKILL)
    world.until("no driver", lambda: not world.drivers())


def revivals(look: Run, world: World) -> list[dict[str, Any]]:
    """Return what a look has asked for to bring this stream back."""
    assert look.state == "success", look.log[-8000:]
    return [each for each in look.result("look") if each["conf"].get("stream") == world.name]


def told_of_files(look: Run) -> list[str]:
    """Return what a look has told of YAML files."""
    return [line for line in look.log.splitlines() if "streams__watch-files" in line]


def upgrades(look: Run, world: World) -> list[dict[str, Any]]:
    """Return the upgrades that a look has triggered."""
    assert look.state == "success", look.log[-8000:]
    return [each for each in look.other_runs if each["dag"] == f"{world.name}__upgrade" and each["state"] == "queued"]


def revived(world: World) -> Run:
    """Look until a run brings the stream back, and return it: no driver is missed before its lease is over."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        run = world.watch()
        if "look" not in run.states:
            return run
    raise AssertionError(run.log[-8000:])


def test_a_stream_that_runs_is_looked_at_and_nothing_is_written(world: World) -> None:
    world.deploy("1")
    before = world.kinds()
    for _ in range(2):
        run = world.look()
        assert run.state == "success", run.log[-8000:]
        assert revivals(run, world) == []
    kept = samples.read(SampleFile(folder_of(world.log)))
    assert [(sample.phase, sample.version, dict(sample.open_incidents)) for sample in kept] == [
        ("running", "1", {})
    ] * 2
    assert world.kinds() == before


def test_a_stream_whose_driver_was_killed_runs_again(world: World) -> None:
    world.deploy("1")
    world.look()
    kill(world)
    run = revived(world)
    assert run.state == "success", run.log[-8000:]
    assert world.version == "1"
    assert world.kinds()[8:] == [
        "fencing",
        "fenced",
        "failed",
        "declared",
        "submitted",
        "standby",
        "requested",
        "ready",
        "acquired",
    ]
    assert len(world.drivers()) == 1
    world.assert_sound()


@pytest.mark.system  # a minute
def test_the_release_that_held_last_comes_back_rather_than_the_warm_older_one(world: World) -> None:
    world.deploy("1")
    upgraded = world.upgrade("2").result("hand_over")
    (holder,) = [pid for pid, deployment in world.drivers().items() if deployment == upgraded["deployment"]]
    os.kill(holder, signal.SIGKILL)
    run = revived(world)
    assert run.state == "success", run.log[-8000:]
    assert run.result("revive")["holder"] != upgraded["previous"]
    assert world.version == "2"
    assert world.kinds().count("declared") == 3
    world.assert_sound()


def test_what_a_person_stopped_stays_stopped(world: World) -> None:
    world.deploy("1")
    world.by_hand("stop")
    before = world.kinds()
    assert revivals(world.look(), world) == []
    run = world.by_hand("revive")
    assert run.states["revive"] == "skipped"
    assert "There is nothing to do. Nobody holds the stream (it is stopped)" in run.log
    assert world.kinds() == before
    assert not world.drivers()


def test_a_stream_that_was_never_deployed_is_left_alone(world: World) -> None:
    assert revivals(world.look(), world) == []
    run = world.by_hand("revive")
    assert run.state == "failed"
    assert f"looks after no stream {world.name}" in run.log


def test_where_nothing_is_to_be_done_the_run_is_skipped_with_the_reason(world: World) -> None:
    world.deploy("1")
    run = world.by_hand("revive")
    assert run.states["revive"] == "skipped"
    assert "holds it, and its driver is alive" in run.log


@pytest.mark.system
@pytest.mark.parametrize("call", [2, 3, 5, 6])
def test_what_a_task_that_died_had_begun_its_next_try_ends(world: World, call: int) -> None:
    """Its calls are: fencing, kill, fenced, failed, declared, submit, requested."""
    world.deploy("1")
    kill(world)
    died = world.by_hand("revive", crash={"call": call, "when": "after"})
    assert (died.state, died.tries["revive"]) == ("success", 2)
    run = world.by_hand("revive")
    assert run.states["revive"] == "skipped"
    assert world.version == "1"
    assert world.kinds().count("submitted") == 2
    assert len(world.drivers()) == 1
    world.assert_sound()


def test_a_release_that_never_comes_up_is_not_started_over_and_over(world: World) -> None:
    broken = world.data / "broken"
    world.application.write_text(
        f"import os\nassert not os.path.exists({str(broken)!r})\nQUERIES = ('enrich', 'totals')\n"
    )
    world.deploy("1")
    kill(world)
    broken.touch()
    first = world.by_hand("revive")
    assert first.state == "failed"
    assert "was started 1 times within an hour and failed each time" in first.log
    second = world.by_hand("revive")
    assert second.states["revive"] == "skipped"
    assert "The next try comes in" in second.log
    assert world.kinds().count("declared") == 2


def test_a_stream_whose_yaml_breaks_is_watched_and_brought_back_all_the_same(world: World) -> None:
    """By what it said last, though not one line of it can be read any more."""
    world.deploy("1")
    world.look()
    good = world.yaml.read_text()
    world.yaml.write_text("[" + good.replace("control", "contorl"))
    kill(world)
    run = revived(world)
    assert run.state == "success", run.log[-8000:]
    assert world.version == "1"
    world.yaml.write_text(good)
    world.assert_sound()


def test_people_are_told_over_several_runs_of_a_file_of_which_nothing_is_known(world: World) -> None:
    world.deploy("1")
    assert world.look().state == "success"
    unknown = world.yaml.with_name("unknown.yaml")
    unknown.write_text("[")
    looks = [world.look()]
    time.sleep(FAILING_SECONDS)
    looks += [world.look(), world.look()]
    unknown.unlink()
    looks += [world.look(), world.look()]
    told = [[("unknown.yaml" in line, "again" in line) for line in told_of_files(look)] for look in looks]
    # Once that it is there, by the second look that finds it, and once that it is not any more.
    assert [bool(each) for each in told] == [False, True, False, True, False]


@pytest.mark.parametrize("gone", ["the file", "the folder"])
def test_a_stream_is_watched_and_brought_back_while_its_yaml_is_away(world: World, gone: str) -> None:
    world.deploy("1")
    assert world.look().state == "success"
    what = world.yaml if gone == "the file" else world.yaml.parent
    what.rename(what.with_name("away"))
    try:
        look = world.look()
        kill(world)
        run = revived(world)
    finally:
        what.with_name("away").rename(what)
    assert look.state == "success", look.log[-8000:]
    assert run.state == "success", run.log[-8000:]
    assert world.version == "1"
    world.assert_sound()


def test_a_change_of_the_yaml_is_upgraded_to_once(world: World) -> None:
    world.deploy("1")
    world.yaml.write_text(world.yaml.read_text() + "  on_change: true\n")
    assert [upgrades(world.look(), world) for _ in range(2)] == [[], []]
    world.yaml.write_text(world.yaml.read_text().replace('version: "1"', 'version: "2"'))
    assert not upgrades(world.look(), world), "it may be saved in parts"
    [asked] = upgrades(world.look(), world)
    assert asked["conf"] == {}
    # As the scheduler begins the queued run.
    run = world.airflow.run(dag=asked["dag"], logical_date=datetime.now(UTC).isoformat(), conf=asked["conf"])
    assert run.state == "success", run.log[-8000:]
    assert world.version == "2"
    assert [upgrades(world.look(), world) for _ in range(2)] == [[], []]


def test_a_fresh_driver_takes_over_before_the_heap_is_full(world: World) -> None:
    world.write("leaks")
    world.deploy("1")
    world.yaml.write_text(world.yaml.read_text() + "  refresh: auto\n")
    world.write()  # what the files say by now is not asked for
    old = world.state.holding_deployment
    assert old is not None
    assert not upgrades(world.look(), world), "nothing is foretold yet"
    # As looks since the driver came to hold would have left it: a refresh comes not sooner than this.
    kept = SampleFile(folder_of(world.log))
    last = samples.read(kept)[-1]
    times = [last.at - 500.0 * (48 - number) for number in range(48)]
    heap = [(700 + 200 * number / 48) * 10**6 for number in range(48)]
    trace = Trace(world.state.holder or "", 500.0, (*times,), {"heap": (*heap,)})
    samples.append(kept, replace(last, at=times[-1], trace=trace))
    look = world.look()
    assert "The heap is full in" in look.log
    [asked] = upgrades(look, world)
    assert asked["conf"]["release"] == old.release.hash
    run = world.airflow.run(dag=asked["dag"], logical_date=datetime.now(UTC).isoformat(), conf=asked["conf"])
    assert run.state == "success", run.log[-8000:]
    held = world.state.holding_deployment
    assert held is not None
    assert (held.id != old.id, held.release) == (True, old.release)
    history = life([*world.log.records()], world.state)
    (why,) = [each.reason for each in history if each.what is What.HANDED_OVER]
    assert why.startswith("Refresh 1: The heap is full in")
    assert not upgrades(world.look(), world), "its heap is its own"
    world.assert_sound()

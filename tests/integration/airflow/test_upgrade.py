"""The upgrade DAG from end to end: deploy, upgrade, refusal, roll-back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from airflow_stream_provider.lifecycle.ids import deployment_of
from tests.support.airflow_world import World


@pytest.mark.quick
def test_the_first_release_is_appointed(world: World) -> None:
    run = world.deploy("1")
    assert world.version == "1"
    assert run.states["retire"] == "skipped"
    assert run.states["roll_back"] == "skipped"
    comes_up, takes_over = ["declared", "submitted", "standby"], ["requested", "ready", "acquired"]
    assert world.kinds() == ["wanted", *comes_up, "wanted", *takes_over]
    assert run.xcoms["submit"]["_link_SparkUiLink"] == "http://spark:4040"
    # A browser opens no file of a worker.
    assert run.xcoms["submit"]["_link_DriverLogLink"] == ""
    world.assert_sound()


def test_an_upgrade_hands_over_and_keeps_the_old_release_warm_until_its_own_run_retires_it(world: World) -> None:
    world.deploy("1")
    run = world.upgrade("2")
    assert run.state == "success", run.log[-8000:]
    assert world.version == "2"
    handed = run.result("hand_over")
    assert handed["boundary"] == "completed"
    assert set(handed["gap_seconds"]) == {"enrich", "totals"}
    assert handed["version"] == "2"
    assert deployment_of(f"{handed['previous']}.x").startswith(f"{world.name}-1-")
    assert len(world.drivers()) == 2
    retire = [r for r in run.other_runs if r["dag"] == f"{world.name}__retire"]
    assert [r["conf"] for r in retire] == [{"deployment": handed["previous"]}]

    retired = world.by_hand("retire", deployment=handed["previous"])
    assert retired.state == "success", retired.log[-8000:]
    assert set(world.drivers().values()) == {handed["deployment"]}
    refused = world.by_hand("retire", deployment=handed["deployment"])
    assert refused.states["retire"] == "skipped"
    assert world.version == "2"
    world.assert_sound()


@pytest.mark.system
def test_a_cleared_run_changes_nothing_whoever_holds_since(world: World) -> None:
    world.deploy("1")
    first = world.date
    world.deploy("2")
    before = world.kinds()
    second = world.date
    again = world.upgrade("2", again=second)
    assert again.state == "success", again.log[-8000:]
    assert world.kinds() == before
    old = world.upgrade("1", again=first)
    assert (old.state, old.states["submit"], old.states["roll_back"]) == ("failed", "failed", "skipped")
    assert f"was replaced by record {before.index('wanted', 10) + 1}, by airflow:{world.name}__upgrade/" in old.log
    assert world.version == "2"
    assert world.kinds() == before
    world.assert_sound()


def test_a_refused_rehearsal_leaves_the_holder_alone(world: World) -> None:
    world.deploy("1")
    world.write("refuse")
    before = world.state.epoch
    run = world.upgrade("2")
    assert run.state == "failed"
    assert run.states["submit"] == "failed"
    assert run.tries["submit"] == 1
    assert run.states["roll_back"] == "success", "it is called off"
    assert "Release 2 was refused: Spark refuses the plan." in run.log
    assert (world.version, world.state.epoch) == ("1", before)
    world.until("one driver", lambda: len(world.drivers()) == 1)
    world.assert_sound()


def test_a_driver_that_never_speaks_is_said_to_have_failed(world: World) -> None:
    world.deploy("1")
    world.write("die-starting")
    run = world.upgrade("2")
    assert run.state == "failed"
    assert "Its driver never came up" in run.log
    assert world.version == "1"
    assert world.kinds().count("submitted") == 2


def test_a_release_that_dies_in_the_soak_is_rolled_back_to_the_warm_one(world: World) -> None:
    world.deploy("1")
    world.write("die-running")
    run = world.upgrade("2")
    assert run.state == "failed", run.log[-8000:]
    assert run.states["soak"] == "failed"
    assert run.states["roll_back"] == "success", run.log[-8000:]
    assert run.states["report"] == "failed"
    assert "Release 2 took over and did not stay." in run.log
    assert world.version == "1"
    assert world.kinds().count("fenced") == 1
    assert world.kinds().count("submitted") == 2
    again = world.upgrade("2", again=world.date)
    assert again.state == "failed"
    assert world.version == "1"
    world.assert_sound()


def test_a_dead_holder_is_fenced_before_the_next_release_takes_over(world: World) -> None:
    world.deploy("1")
    for pid in world.drivers():
        os.kill(pid, signal.SIGKILL)
    run = world.upgrade("2")
    assert run.state == "success", run.log[-8000:]
    assert world.version == "2"
    kinds = world.kinds()
    assert kinds.index("fenced") < len(kinds) - 1 - kinds[::-1].index("acquired")
    world.assert_sound()


@pytest.mark.system
def test_a_release_that_dies_again_and_again_is_upgraded_at_once(world: World) -> None:
    world.write("die-running")
    assert world.upgrade("1").state == "failed"
    world.watch()
    world.until("it to die once more", lambda: not world.drivers())
    world.write()
    run = world.upgrade("2")
    assert run.state == "success", run.log[-8000:]
    assert world.version == "2"
    assert len(world.drivers()) == 1
    world.assert_sound()


def test_a_roll_back_fences_a_holder_that_does_not_let_go(world: World) -> None:
    world.deploy("1")
    world.write("deaf")
    run = world.upgrade("2")
    assert run.state == "success", run.log[-8000:]
    bad = run.result("hand_over")["deployment"]
    back = world.by_hand("back", deployment=bad)
    assert back.state == "success", back.log[-8000:]
    assert world.version == "1"
    assert "aborted" in world.kinds()
    assert bad not in world.drivers().values()
    world.assert_sound()
    done = world.by_hand("back", deployment=bad)
    assert done.states["back"] == "skipped"


@pytest.mark.system
def test_a_roll_back_to_a_release_that_is_gone_brings_it_up_anew(world: World) -> None:
    world.deploy("1")
    run = world.upgrade("2")
    world.by_hand("retire", deployment=run.result("hand_over")["previous"])
    back = world.by_hand("back", deployment=run.result("hand_over")["deployment"])
    assert back.state == "success", back.log[-8000:]
    assert world.version == "1"
    assert world.kinds().count("submitted") == 3
    world.assert_sound()


@pytest.mark.system
def test_the_next_upgrade_makes_room(world: World) -> None:
    world.deploy("1")
    kept = world.upgrade("2").result("hand_over")["previous"]
    run = world.upgrade("3")
    assert run.state == "success", run.log[-8000:]
    assert world.state.deployments[kept].reason.startswith("It makes room for the wish of ")
    assert len(world.drivers()) == 2
    world.assert_sound()


def test_restart_stops_first_and_a_refusal_brings_the_old_release_back(make_world: Callable[..., World]) -> None:
    world = make_world(strategy="restart")
    world.deploy("1")
    run = world.upgrade("2")
    assert run.state == "success", run.log[-8000:]
    assert (run.states["submit"], run.result("hand_over")["boundary"]) == ("skipped", "completed")
    assert len(world.drivers()) == 1
    world.write("refuse")
    refused = world.upgrade("3")
    assert refused.state == "failed"
    assert refused.states["roll_back"] == "success", refused.log[-8000:]
    assert world.version == "2"
    world.assert_sound()


def test_stop_and_start(world: World) -> None:
    world.deploy("1")
    sensed = world.by_hand("sense", version="1")
    assert sensed.state == "success"
    stopped = world.by_hand("stop")
    at_stop = world.date
    assert stopped.state == "success", stopped.log[-8000:]
    result = stopped.result("stop")
    last = world.batches()[-1]
    assert result["ends"]["enrich"]["batch"] == last
    assert result["offsets"]["enrich"] == [{"orders": {"0": last + 1}}]
    assert world.state.phase.value == "stopped"
    assert not world.drivers()
    missed = world.by_hand("sense", version="1")
    assert missed.state == "failed"
    assert "Timed out waiting for the stream to be running with release 1" in missed.log

    started = world.by_hand("start", version="2")
    assert started.state == "success", started.log[-8000:]
    assert world.version == "2"
    assert world.by_hand("start", version="2").state == "success"
    other = world.by_hand("start", version="3")
    assert other.state == "failed"
    assert "Upgrade the stream to it, with the strategy `restart`" in other.log

    cleared = world.by_hand("stop", again=at_stop)
    assert cleared.state == "failed"
    assert "The wish of this task was replaced by record " in cleared.log
    assert world.version == "2"
    world.assert_sound()


@pytest.mark.parametrize(
    ("call", "when"),
    [
        (3, "before"),
        *(pytest.param(*at, marks=pytest.mark.system) for at in ((2, "before"), (4, "before"), (5, "before"))),
    ],
)
def test_a_worker_that_dies_at_any_act_is_retried_to_the_same_end(world: World, call: int, when: str) -> None:
    """Its calls are: wanted, declared, submit with `submitted` inside, wanted, requested."""
    world.deploy("1")
    run = world.upgrade("2", crash={"call": call, "when": when})
    assert run.state == "success", run.log[-8000:]
    assert world.version == "2"
    assert world.kinds().count("submitted") == 2
    assert world.kinds().count("requested") == 2
    assert len(world.drivers()) == 2
    world.assert_sound()

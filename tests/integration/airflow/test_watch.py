"""The scheduled watch in a real Airflow: it brings back what died, and leaves alone what a person stopped."""

from __future__ import annotations

import os
import signal

import pytest

from airflow_stream_provider.monitoring import samples as samples
from tests.support.airflow_world import World


def kill(world: World) -> None:
    for pid in world.drivers():
        os.kill(pid, signal.SIGKILL)
    world.until("no driver", lambda: not world.drivers())


def test_a_stream_that_runs_is_looked_at_and_nothing_is_written(world: World) -> None:
    world.deploy("1")
    before = world.kinds()
    for _ in range(2):
        run = world.by_hand("watch")
        assert run.state == "success", run.log[-8000:]
        assert run.result("watch")["holder"]
    kept = samples.read(world.log.store)
    assert [(sample.phase, sample.version, dict(sample.open_incidents)) for sample in kept] == [
        ("running", "1", {})
    ] * 2
    assert world.kinds() == before


def test_a_stream_whose_driver_was_killed_runs_again(world: World) -> None:
    world.deploy("1")
    world.by_hand("watch")
    kill(world)
    world.by_hand("watch")  # which may still see that it lived after the look before
    run = world.by_hand("watch")
    assert run.state == "success", run.log[-8000:]
    assert world.version == "1"
    kinds = world.kinds()
    assert kinds[6:] == [
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


def test_the_release_that_held_last_comes_back_rather_than_the_warm_older_one(world: World) -> None:
    world.deploy("1")
    upgraded = world.upgrade("2").result("hand_over")
    (holder,) = [pid for pid, deployment in world.drivers().items() if deployment == upgraded["deployment"]]
    os.kill(holder, signal.SIGKILL)
    run = world.by_hand("watch")
    assert run.state == "success", run.log[-8000:]
    assert run.result("watch")["holder"] != upgraded["previous"]
    assert world.version == "2"
    assert world.kinds().count("declared") == 3
    world.assert_sound()


def test_what_a_person_stopped_stays_stopped(world: World) -> None:
    world.deploy("1")
    world.by_hand("stop")
    before = world.kinds()
    run = world.by_hand("watch")
    assert run.states["watch"] == "skipped"
    assert world.kinds() == before
    assert not world.drivers()


def test_a_stream_that_was_never_deployed_is_skipped(world: World) -> None:
    assert world.by_hand("watch").states["watch"] == "skipped"


@pytest.mark.parametrize("call", [2, *(pytest.param(call, marks=pytest.mark.system) for call in (1, 4, 5))])
def test_what_a_watch_that_died_had_begun_the_next_one_ends(world: World, call: int) -> None:
    """Its calls are: kill, fenced, failed, declared, submit, requested. The next one is its own retry."""
    world.deploy("1")
    kill(world)
    died = world.by_hand("watch", crash={"call": call, "when": "after"})
    assert (died.state, died.tries["watch"]) == ("success", 2)
    run = world.by_hand("watch")
    assert run.state == "success", run.log[-8000:]
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
    first = world.by_hand("watch")
    assert first.state == "failed"
    assert "was started again and failed" in first.log
    second = world.by_hand("watch")
    assert second.states["watch"] == "skipped"
    assert "The next try comes in" in second.log
    assert world.kinds().count("declared") == 2


def test_people_are_told_over_several_runs_that_the_watch_itself_fails(world: World) -> None:
    world.deploy("1")
    world.by_hand("stop")
    log = world.folder / "control" / world.name / "log"
    hidden = log.with_name("hidden")
    log.rename(hidden)
    first, second = world.by_hand("watch"), world.by_hand("watch")
    assert (first.state, first.tries["watch"]) == ("failed", 4)
    opened, again = (run.xcoms["watch"]["watch_incident"] for run in (first, second))
    assert opened["incident"] == again["incident"]
    # Not acknowledged anew: nobody was told again.
    assert opened["acknowledged"] == again["acknowledged"] == {"log": opened["incident"]}
    hidden.rename(log)
    third, fourth = world.by_hand("watch"), world.by_hand("watch")
    assert third.xcoms["watch"]["watch_incident"] == {}
    assert "watch_incident" not in fourth.xcoms.get("watch", {})

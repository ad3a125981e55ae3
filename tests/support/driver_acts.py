"""What happens to a driver on fakes: it is asked, it hands over, it is told to end, it loses its queries."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from tests.support.fake_driver import FakeDriver, look_again, lose, work
from tests.support.story import NEW, requested, write

MISSED = BoundaryMissed("It is still running a batch.")


def announce(driver: FakeDriver) -> None:
    work(driver)
    driver.turn()


def refuse(driver: FakeDriver) -> None:
    driver.refusal = RehearsalRefused("Spark refuses the plan.")
    work(driver)


def still_building(driver: FakeDriver) -> None:
    driver.queries.ready = False
    driver.turn()


def be_asked(driver: FakeDriver) -> None:
    announce(driver)
    write(driver.log, requested("up", NEW))
    driver.turn()


def be_asked_while_the_old_job_writes(driver: FakeDriver) -> None:
    driver.process.waits_for = "The logs of /cp were written 1 s ago."
    be_asked(driver)
    driver.turn()
    assert driver.log.refresh().open_request is not None


def be_asked_until_the_old_job_is_still(driver: FakeDriver) -> None:
    be_asked_while_the_old_job_writes(driver)
    driver.process.waits_for = ""
    driver.turn()


def be_asked_though_it_only_looks(driver: FakeDriver) -> None:
    driver.agent._acts._policy = Policy(find=True)
    be_asked(driver)
    driver.turn()


def fit_no_more(driver: FakeDriver) -> None:
    driver.refusal = RehearsalRefused("No.")
    work(driver)


def hand_over(driver: FakeDriver) -> None:
    """The standby's heartbeat moves after the holder has seen its answer."""
    driver.running().turn()
    driver.moves(NEW, 1)
    work(driver)


def hand_over_in_back_off(driver: FakeDriver) -> None:
    """A query has failed inside a batch and waits to be tried again: no task of it runs."""
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7)}
    hand_over(driver)


def hand_over_with_tasks(driver: FakeDriver) -> None:
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7, running_tasks=1)}
    hand_over(driver)


def miss(driver: FakeDriver) -> None:
    driver.queries.missed = MISSED
    hand_over(driver)


def expire(driver: FakeDriver) -> None:
    driver.running()
    driver.clock.now += 51.0
    driver.process.deadline += 51.0
    driver.turn()


def terminate(driver: FakeDriver) -> None:
    driver.agent.terminate()
    driver.turn()


def drain(driver: FakeDriver) -> None:
    driver.running().agent.terminate()
    work(driver)
    driver.turn()


def drain_in_a_batch(driver: FakeDriver) -> None:
    driver.queries.missed = MISSED
    driver.running().agent.terminate()
    work(driver)


def run(driver: FakeDriver) -> None:
    driver.running().turn()


def cure(driver: FakeDriver) -> None:
    driver.queries.due = [driver.queries]
    look_again(driver)
    driver.work()


def lose_with_tasks(driver: FakeDriver) -> None:
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7, running_tasks=1)}
    lose(driver)


def lose_in_a_batch(driver: FakeDriver) -> None:
    driver.queries.missed = MISSED
    lose(driver)


def finish(driver: FakeDriver) -> None:
    driver.running().agent.script_finished()

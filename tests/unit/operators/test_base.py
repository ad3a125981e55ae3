"""The loop that every stream operator runs: observe, plan, carry out, defer."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.get_provider_info import get_provider_info
from airflow_stream_provider.lifecycle.errors import ClusterError, HandOverFailed, SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.operators.base import StreamOperator, WishOperator
from airflow_stream_provider.operators.stream import HandOverOperator
from airflow_stream_provider.planning.conditions import InPhase
from airflow_stream_provider.planning.signs_of_life import Dead
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import (
    Append,
    AskPerson,
    Done,
    GiveUp,
    Kill,
    Later,
    Skip,
    Step,
    Submit,
    TaskIdentity,
    Wait,
    Want,
)
from airflow_stream_provider.planning.waits import Ended, Needs, WaitOutcome
from airflow_stream_provider.spec.stream import LOST_SECONDS, StreamSpec
from tests.support.control_root import published
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, UPGRADED, scene, snapshot
from tests.support.story import NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, RUNNING, TWIN, standby, write
from tests.support.tasks import IDENTITY, context, run, waits

FAR = 4e9
RETIRE = Append("retired", {"deployment": NEW_DEPLOYMENT, "reason": "why"})


class Planned(StreamOperator):
    """Takes these steps one after the other, whatever it sees; `seen` is what it saw."""

    def __init__(self, *, steps: list[Any], asks: Needs | None = None, **kwargs: Any) -> None:
        super().__init__(task_id="t", **kwargs)
        self.steps = steps
        self.asks = asks or Needs()
        self.seen: list[tuple[Snapshot, WaitOutcome | None]] = []

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        self.seen.append((snapshot, outcome))
        assert identity == IDENTITY
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        found: Step = step
        return found

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        return self.asks


def test_a_step_is_taken_and_the_stream_looked_at_again_until_one_ends_the_try(
    spec: StreamSpec, log: ControlLog
) -> None:
    write(log, *BOTH)
    operator = Planned(stream=spec, steps=[RETIRE, Done({"all": "well"})])
    assert run(operator) == {"all": "well"}
    assert [snapshot.state.seq for snapshot, _ in operator.seen] == [len(BOTH), len(BOTH) + 1]
    last = log.records()[-1]
    assert (last.kind, last.by, last["reason"]) == ("retired", IDENTITY.by, "why")


def test_a_plan_that_something_came_between_is_made_anew(
    spec: StreamSpec, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, *BOTH)
    operator = Planned(stream=spec, steps=[RETIRE, Done({})])
    plan = operator.plan

    def overtaken(*args: Any) -> Step:
        step = plan(*args)
        if isinstance(step, Append):
            write(log, standby(TWIN))
        return step

    monkeypatch.setattr(operator, "plan", overtaken)
    run(operator)
    assert [record.kind for record in log.records()][len(BOTH) :] == ["standby"]
    assert [snapshot.state.seq for snapshot, _ in operator.seen] == [len(BOTH), len(BOTH) + 1]


@pytest.mark.parametrize(
    ("step", "error", "says"),
    [
        (Skip("It holds."), AirflowSkipException, "It holds."),
        (GiveUp(HandOverFailed("It broke.", next_step="Mend it.")), AirflowFailException, r"It broke\. Mend it\."),
        (SpecError("No such connection."), AirflowFailException, "No such connection"),
        (ClusterError("The master is away."), ClusterError, "The master is away"),
    ],
    ids=["skipped", "failed", "a person must act first", "retried"],
)
def test_how_a_try_may_end(spec: StreamSpec, log: ControlLog, step: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        run(Planned(stream=spec, steps=[step]))


def test_a_wait_has_one_deadline_for_all_tries_of_its_task(spec: StreamSpec, log: ControlLog) -> None:
    condition = InPhase(("running",))
    with pytest.raises(TaskDeferred) as deferred:
        run(Planned(stream=spec, steps=[Wait(condition)]), WaitOutcome(Ended.REACHED, deadline=FAR))
    path, trigger = deferred.value.trigger.serialize()
    assert path == "airflow_stream_provider.triggers.stream.StreamTrigger"
    assert trigger["deadline"] == FAR
    assert trigger["condition"] == condition.to_json()
    assert trigger["address"]["stream"] == "orders"
    assert deferred.value.method_name == "resume"


def test_what_is_killed_is_waited_for(spec: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    write(log, *RUNNING)
    condition = waits(Planned(stream=spec, steps=[Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))]))
    assert cluster.did == [("kill", f"driver-{OLD_DEPLOYMENT}")]
    assert condition["condition"] == "Dead"


@pytest.mark.parametrize("still", [True, False])
def test_one_that_beats_again_before_its_kill_is_looked_at_once_more(
    still: bool, spec: StreamSpec, log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a review: the kill was carried out though the driver had been frozen for a moment only."""
    write(log, *RUNNING)
    log.beat(OLD, Heartbeat(counter=7))
    kill = Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    operator = Planned(stream=spec, steps=[kill, kill if still else Done({})])
    counters = iter(range(8, 100))
    plan = operator.plan

    def plan_and_beat(*args: Any) -> Step:
        log.beat(OLD, Heartbeat(counter=next(counters)))
        return plan(*args)

    monkeypatch.setattr(operator, "plan", plan_and_beat)
    if still:
        waits(operator)
    else:
        run(operator)
    assert cluster.did == [("kill", f"driver-{OLD_DEPLOYMENT}")] * still
    assert [snapshot.counter(OLD) for snapshot, _ in operator.seen] == [7, 8]


def test_the_cluster_is_asked_only_when_the_plan_needs_it(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *RUNNING)
    plain = Planned(stream=spec, steps=[Done({})])
    run(plain)
    assert plain.seen[0][0].drivers == {}
    asking = Planned(stream=spec, steps=[Done({})], asks=Needs(drivers=(OLD_DEPLOYMENT,)))
    run(asking)
    assert asking.seen[0][0].drivers.keys() == {OLD_DEPLOYMENT}


def test_a_submission_that_is_not_certain_is_asked_for_again_later(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, published(log, OLD_DEPLOYMENT))
    cluster.found = type(cluster.found)(certain=False)
    assert waits(Planned(stream=spec, steps=[Submit(OLD_DEPLOYMENT)]))["condition"] == "Pause"
    assert cluster.did == []


def test_what_this_try_has_not_declared_itself_is_searched_for_before_it_is_submitted(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, published(log, OLD_DEPLOYMENT))
    run(Planned(stream=spec, steps=[Submit(OLD_DEPLOYMENT), Done({})]))
    assert cluster.searched == [(OLD_DEPLOYMENT, 100.0)]
    assert cluster.did == [("submit", "driver-1")]


def test_links_are_left_before_a_wait_and_never_fail_a_task(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *RUNNING)
    log.beat(OLD, Heartbeat(ui_url="http://driver:4040"))
    pushed: dict[str, Any] = {}

    def leave(deployment: str) -> None:
        with pytest.raises(TaskDeferred):
            Planned(stream=spec, deployment=deployment, steps=[Wait(InPhase(("stopped",)))]).execute(context(pushed))

    leave(OLD_DEPLOYMENT)
    assert pushed == {
        "link_driver_log": f"http://worker/driver-{OLD_DEPLOYMENT}",
        "link_spark_ui": "http://driver:4040",
    }
    pushed.clear()
    # One that works on no driver of its own: to the holder's.
    leave("")
    assert pushed == {
        "link_driver_log": f"http://worker/driver-{OLD_DEPLOYMENT}",
        "link_spark_ui": "http://driver:4040",
    }
    pushed.clear()
    cluster.error = ClusterError("The master is away.")
    leave(OLD_DEPLOYMENT)
    assert pushed == {"link_spark_ui": "http://driver:4040"}


@pytest.mark.parametrize("event", [None, {}, {"ended": "done"}])
def test_an_event_that_is_not_ours_is_no_success(spec: StreamSpec, log: ControlLog, event: Any) -> None:
    write(log, *UPGRADED)
    with pytest.raises(Exception, match="instead of a stream event"):
        HandOverOperator(task_id="t", stream=spec, family="new").resume(context(), event)


@pytest.mark.parametrize(("wait_seconds", "waited"), [(None, 900), (60.0, 60)])
def test_a_timeout_fails_with_what_was_waited_for(
    spec: StreamSpec, log: ControlLog, wait_seconds: float | None, waited: int
) -> None:
    timeout = WaitOutcome(
        Ended.TIMEOUT, reason="Timed out waiting for x. Last problem: It is away.", evidence={OLD: "running: batch 7"}
    )
    expected = rf"orders: Timed out waiting for x\. Last problem: It is away\. The task waited {waited} s\. "
    operator = Planned(stream=spec, steps=[], wait_seconds=wait_seconds)
    with pytest.raises(AirflowFailException, match=expected + ".*says 'running: batch 7'"):
        run(operator, timeout)
    assert operator.seen == []


@pytest.mark.parametrize("ends", [Later(FAR, HandOverFailed("Not yet.", next_step="Wait."), "d"), AskPerson("d", "")])
def test_what_nobody_can_do_now_is_no_success(spec: StreamSpec, log: ControlLog, ends: Step) -> None:
    expected = AirflowFailException if isinstance(ends, Later) else AirflowSkipException
    with pytest.raises(expected, match=r"Not yet\.|A person is to end the job that d follows"):
        run(Planned(stream=spec, steps=[ends]))


def test_a_wish_is_written_once_and_then_gone_on_with(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    want = Want({"wish": "w", "goal": "hold", "family": "old", "reason": "why"})
    run(Planned(stream=spec, steps=[want, Done({})]))
    wish = log.refresh().wish
    assert wish is not None
    assert (wish.id, wish.family, wish.by) == ("w", "old", IDENTITY.by)


def test_what_an_operator_does_not_say_it_cannot_do(spec: StreamSpec) -> None:
    with pytest.raises(NotImplementedError):
        StreamOperator(task_id="t", stream=spec).plan(snapshot(), IDENTITY, None)
    with pytest.raises(NotImplementedError):
        WishOperator(task_id="t", stream=spec).wish(scene())


def stream_operators() -> list[type[StreamOperator]]:
    """Return StreamOperator and every class that the provider offers or shares between those."""
    modules = [name for entry in get_provider_info()["operators"] for name in entry["python-modules"]]
    named = [value for name in modules for value in vars(importlib.import_module(name)).values()]
    classes = {value for value in named if isinstance(value, type) and issubclass(value, StreamOperator)}
    return sorted(classes, key=lambda each: each.__name__)


@pytest.mark.parametrize("operator", stream_operators())
def test_every_task_waits_long_enough_to_fence_a_driver_on_a_lost_machine(operator: type[StreamOperator]) -> None:
    assert operator.WAIT_SECONDS > LOST_SECONDS


@pytest.mark.parametrize("operator", stream_operators())
def test_no_operator_ends_a_stream_when_airflow_kills_its_task(operator: type[StreamOperator]) -> None:
    own = [each for each in operator.__mro__ if each.__module__.startswith("airflow_stream_provider")]
    assert StreamOperator in own
    assert not any("on_kill" in vars(each) for each in own)

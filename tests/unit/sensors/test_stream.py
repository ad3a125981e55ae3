from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException, TaskDeferred

from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.sensors.stream import StreamSensor
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.triggers.grace import TRIGGER_GRACE_SECONDS
from tests.support.control_root import new_log
from tests.support.snapshots import RUNNING


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    fields = {"name": "orders", "application": "a.py", "version": "2", "cluster": "c", "control": f"file://{tmp_path}"}
    log = new_log(fields["control"], "orders")
    for seq, one in enumerate(RUNNING):
        log.append(one, seq)
    return StreamSpec.model_validate(fields)


def sensor(spec: StreamSpec, **settings: Any) -> StreamSensor:
    return StreamSensor(task_id="t", stream=spec, **settings)


def test_it_looks_once_before_it_defers(spec: StreamSpec) -> None:
    assert sensor(spec).execute({}) is None
    with pytest.raises(TaskDeferred) as deferred:
        sensor(spec, phases=["stopped", StreamPhase.FAILED], version="1").execute({})
    condition = deferred.value.trigger.serialize()[1]["condition"]
    assert condition == {"condition": "InPhase", "phases": ("stopped", "failed"), "version": "1"}


def test_without_a_triggerer_airflow_itself_ends_the_wait(spec: StreamSpec) -> None:
    with pytest.raises(TaskDeferred) as deferred:
        sensor(spec, phases="stopped", timeout=60).execute({})
    assert deferred.value.timeout == timedelta(seconds=60 + TRIGGER_GRACE_SECONDS)
    for soft_fail, error in ((False, AirflowSensorTimeout), (True, AirflowSkipException)):
        with pytest.raises(error):
            sensor(spec, soft_fail=soft_fail).resume_execution("__fail__", {"error": "Trigger timeout"}, {})


def test_it_can_poke(spec: StreamSpec) -> None:
    assert sensor(spec, version="1").poke({})
    assert not sensor(spec, version="2").poke({})


def test_a_phase_that_does_not_exist_is_refused_when_the_dag_is_parsed(spec: StreamSpec) -> None:
    with pytest.raises(ValueError, match="sleeping"):
        sensor(spec, phases="sleeping")


def test_time_that_is_over_fails(spec: StreamSpec) -> None:
    with pytest.raises(AirflowFailException, match=r"orders: Timed out waiting for x\. Clear the task"):
        sensor(spec).resume({}, WaitOutcome(Ended.TIMEOUT, reason="Timed out waiting for x.").to_event())


def test_with_soft_fail_time_that_is_over_skips(spec: StreamSpec) -> None:
    with pytest.raises(AirflowSkipException, match="Timed out waiting for x"):
        sensor(spec, soft_fail=True).resume(
            {}, WaitOutcome(Ended.TIMEOUT, reason="Timed out waiting for x.").to_event()
        )


def test_a_stream_that_was_never_deployed_is_waited_for(spec: StreamSpec, tmp_path: Path) -> None:
    new = spec.model_copy(update={"name": "new"})
    assert not sensor(new, deferrable=False).poke({})
    with pytest.raises(TaskDeferred) as deferred:
        sensor(new).execute({})

    async def first_event() -> Any:
        return (await anext(aiter(deferred.value.trigger.run()))).payload

    async def wait_until_it_is_deployed() -> Any:
        waiting = asyncio.create_task(first_event())
        await asyncio.sleep(0)  # it looks, and finds nothing
        log = new_log(f"file://{tmp_path}", "new")
        for seq, one in enumerate(RUNNING):
            log.append(one, seq)
        return await asyncio.wait_for(waiting, 60)

    assert asyncio.run(wait_until_it_is_deployed())["ended"] == "reached"

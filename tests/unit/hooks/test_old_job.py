"""What the log says of a job that a person is asked to end: once, before he is; and that it runs on if he says no."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks.old_job import is_to_end, runs_on
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamPhase
from tests.support.control_root import new_log
from tests.support.snapshots import ME
from tests.support.story import FOLLOWING, JOB_GONE, OLD_DEPLOYMENT, RUNNING, retired, write
from tests.support.tasks import spec_in


@pytest.fixture
def stream(tmp_path: Path) -> tuple[StreamHook, ControlLog]:
    spec = spec_in(tmp_path)
    return StreamHook.of(spec), new_log(spec.control, spec.name)


def test_it_is_said_once_and_by_whom(stream: tuple[StreamHook, ControlLog]) -> None:
    hook, log = stream
    write(log, *FOLLOWING)
    for _ in range(2):
        is_to_end(hook, ME, OLD_DEPLOYMENT, "Ada is asked")
    (said,) = log.records()[len(FOLLOWING) :]
    assert (said.kind, said.by, said["job"], said["reason"]) == ("ending", ME.by, "", "Ada is asked")
    runs_on(hook, ME, OLD_DEPLOYMENT, "Ada says no")
    assert log.refresh().phase is StreamPhase.DOWN, "whoever has brought it up may ask still"
    write(log, retired(OLD_DEPLOYMENT))
    for _ in range(2):
        runs_on(hook, ME, OLD_DEPLOYMENT, "Ada says no")
    (stop,) = log.records()[len(FOLLOWING) + 2 :]
    assert (stop.kind, stop.by, stop["reason"]) == ("stopped", ME.by, "Ada says no")
    assert log.refresh().phase is StreamPhase.STOPPED


@pytest.mark.parametrize("records", [[], RUNNING, JOB_GONE, [*FOLLOWING, retired(OLD_DEPLOYMENT)]])
def test_nothing_is_said_where_nothing_is_to_follow_or_it_is_under_way(
    stream: tuple[StreamHook, ControlLog], records: list[Record]
) -> None:
    hook, log = stream
    write(log, *records)
    is_to_end(hook, ME, OLD_DEPLOYMENT, "Ada is asked")
    runs_on(hook, ME, OLD_DEPLOYMENT, "Ada says no")
    assert len(log.records()) == len(records)

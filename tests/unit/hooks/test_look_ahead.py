"""A look at a real control log that says what an operation would do."""

from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.hooks.look_ahead import look_ahead, wanted_of
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.requested_release import RequestedRelease
from tests.support.story import RUNNING, write
from tests.support.tasks import spec_in


def test_it_changes_nothing(hook: StreamHook) -> None:
    write(hook.control_log, *RUNNING)
    before = hook.control_log.refresh().seq
    found = look_ahead(hook, Operation.STOP)
    assert found.parts == (Operation.STOP,)
    assert hook.control_log.refresh().seq == before


def test_a_stream_that_was_never_deployed_has_nothing_to_stop_and_gets_no_control_log(
    tmp_path: Path, hook: StreamHook
) -> None:
    other = StreamHook("payments", f"file://{tmp_path}", "here")
    assert "nothing to stop" in look_ahead(other, Operation.STOP).refused
    assert not other.exists()


def test_a_release_that_cannot_be_made_refuses_a_start(tmp_path: Path, hook: StreamHook) -> None:
    requested = RequestedRelease.of(spec_in(tmp_path), None, None, None, None)
    assert "a.py" in wanted_of(requested).problem
    assert look_ahead(hook, Operation.START, requested).refused == wanted_of(requested).problem

"""What a person sees while a command waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.cli import progress
from airflow_stream_provider.cli.progress import Progress
from airflow_stream_provider.lifecycle.heartbeat import DriverPhase, Heartbeat
from tests.support.snapshots import RUNNING, snapshot
from tests.support.story import OLD


def test_lines_go_to_standard_error_and_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Progress().info("a %s", "\x1b[2Jb")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(" a \ufffd[2Jb\n")


def test_a_wait_that_goes_on_says_so_from_time_to_time_with_what_the_drivers_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = replace(
        snapshot(*RUNNING), heartbeats={OLD: Heartbeat(phase=DriverPhase.RUNNING.value, message="Slow disk.")}
    )
    said = Progress()
    said.still("its end", last)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    said.still("its end", last)
    assert capsys.readouterr().err.endswith(f" still waiting for its end. {OLD}: running Slow disk.\n")
    said.still("its end", None)
    assert capsys.readouterr().err.endswith(" still waiting for its end. \n")

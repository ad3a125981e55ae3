"""The trigger behind a question: an answer, the end of what was asked about, and an API server that is away."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.planning.judgement import Answered
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.triggers import stream as approval
from airflow_stream_provider.triggers.stream import ApprovalTrigger
from tests.support.control_root import new_log
from tests.support.snapshots import BOTH
from tests.support.story import NEW_DEPLOYMENT, OLD_DEPLOYMENT, retired, write

TASK = "0197c1de-0000-7000-8000-000000000001"
READ = "airflow.providers.standard.triggers.hitl.get_hitl_detail_content_detail"
ANSWER = SimpleNamespace(
    response_received=True,
    chosen_options=["Approve"],
    params_input={},
    responded_at=None,
    responded_by_user=SimpleNamespace(id="anna", name="anna"),
)
NONE_YET = SimpleNamespace(response_received=False, chosen_options=None)


def trigger(folder: Path, seconds: float = 600.0) -> ApprovalTrigger:
    address = {"stream": "orders", "control": f"file://{folder}", "cluster": "no_such_connection", "kafka": None}
    condition = Answered(NEW_DEPLOYMENT, OLD_DEPLOYMENT).to_json()
    return ApprovalTrigger(
        address=address, condition=condition, deadline=time.time() + seconds, ti_id=TASK, options=["Approve", "Reject"]
    )


def events(found: ApprovalTrigger) -> list[Any]:
    async def collect() -> list[Any]:
        return [event.payload async for event in found.run()]

    return asyncio.run(collect())


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stream with a standby. Nobody waits long in a test."""
    monkeypatch.setattr(approval, "ASK_SECONDS", 0.05)
    monkeypatch.setattr(Answered, "pace", 0.05)
    write(new_log(f"file://{tmp_path}", "orders"), *BOTH)
    return tmp_path


def test_it_survives_the_metadata_database(tmp_path: Path) -> None:
    found = trigger(tmp_path)
    path, arguments = found.serialize()
    assert path == "airflow_stream_provider.triggers.stream.ApprovalTrigger"
    assert ApprovalTrigger(**arguments).serialize() == (path, arguments)


def test_an_answer_that_came_before_the_wait_began_is_found(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(READ, lambda ti_id: ANSWER)
    (found,) = events(trigger(stream))
    assert (found["chosen_options"], found["responded_by_user"]["name"]) == (["Approve"], "anna")


def test_the_end_of_the_standby_ends_the_wait(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def read(ti_id: Any) -> Any:
        asked.append(ti_id)
        if len(asked) == 3:
            write(new_log(f"file://{stream}", "orders"), retired(NEW_DEPLOYMENT))
        return NONE_YET

    monkeypatch.setattr(READ, read)
    outcome = WaitOutcome.from_event(events(trigger(stream))[0])
    assert outcome.ended is Ended.GONE
    assert f"{NEW_DEPLOYMENT} has ended: not needed." in outcome.reason


def test_nobody_answers_though_the_api_server_is_away(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(ti_id: Any) -> Any:
        raise OSError("no API server")

    monkeypatch.setattr(READ, away)
    outcome = WaitOutcome.from_event(events(trigger(stream, seconds=0.5))[0])
    assert outcome.ended is Ended.TIMEOUT

"""Where the queries stopped: what is written is what the next holder waits for."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.runtime.ends import EndsBefore, described, ends_before
from airflow_stream_provider.runtime.ports import QueryEnd
from tests.support.story import OLD, RUNNING, failed, play, record

ENDS = {"a": QueryEnd(completed=False, batch=7, checkpoint="/a"), "b": QueryEnd(completed=True, batch=None)}


def test_what_is_said_is_what_the_next_one_waits_for() -> None:
    said = described(ENDS)
    assert said["a"] == {"batch": 7, "boundary": "interrupted", "checkpoint": "/a"}
    assert ends_before(play([*RUNNING, failed(OLD, ends=said)])) == EndsBefore({"/a": 7}, False)


@pytest.mark.parametrize("odd", [7, {}, {"batch": 7}, {"batch": "7", "checkpoint": "/a"}])
def test_what_others_wrote_may_be_anything(odd: Any) -> None:
    let_go = record("released", incarnation=OLD, request=None, to=None, boundary="completed", ends={"a": odd})
    assert ends_before(play([*RUNNING, let_go])).committed == {}

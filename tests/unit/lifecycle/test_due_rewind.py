"""Who lets the queries read again what a person asked for, by the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.due_rewind import DueRewind, due_rewind
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from tests.support.story import (
    HANDED_OVER,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    READY,
    TWIN,
    acquired,
    failed,
    fenced,
    play,
    ready,
    released,
    requested,
    standby,
)

WANTED = WantedRewind(1764000000.0, {"a": {"orders": {0: 5}}})
ENDS = {"a": {"batch": 7, "boundary": "completed", "checkpoint": "/a"}}
LET_GO = replace(released(OLD, "up", NEW), fields={**released(OLD, "up", NEW).fields, "ends": ENDS})
HOLDS = [*READY, LET_GO, acquired(NEW, "up", 2)]
FOLLOWED = [standby(TWIN), requested("more", TWIN), ready("more", TWIN)]


def _up(incarnation: str, request: str, epoch: int) -> list[Record]:
    return [requested(request, incarnation), ready(request, incarnation), acquired(incarnation, request, epoch)]


def due(records: Sequence[Record], incarnation: str) -> DueRewind | None:
    return due_rewind(play(asked(records)), incarnation)


def asked(records: Sequence[Record]) -> list[Record]:
    more: dict[str, Any] = {"rewind": WANTED.to_json()}
    return [
        replace(each, fields={**each.fields, **more})
        if each.kind == "declared" and each["deployment"] == NEW_DEPLOYMENT
        else each
        for each in records
    ]


def test_the_first_driver_of_its_deployment_does_it() -> None:
    assert due(HOLDS, NEW) == DueRewind(WANTED, NEW_DEPLOYMENT, {"/a": 7}, owed=False)
    assert due(HANDED_OVER, NEW) == DueRewind(WANTED, NEW_DEPLOYMENT, {}, owed=False), "the log says no checkpoint"
    assert due_rewind(play(HOLDS), NEW) is None, "nobody asked for it"


def test_whoever_follows_one_that_was_lost_does_the_rest() -> None:
    owed = DueRewind(WANTED, NEW_DEPLOYMENT, {"/a": 7}, owed=True)
    lost = [*HOLDS, *FOLLOWED[:1], fenced(NEW), *FOLLOWED[1:]]
    assert due([*lost, acquired(TWIN, "more", 3)], TWIN) == owed
    warm = [requested("back", OLD), ready("back", OLD), acquired(OLD, "back", 3)]
    assert due([*HOLDS, fenced(NEW), *warm], OLD) == owed, "the release before, which is the same one"
    assert due([*lost, acquired(TWIN, "more", 3), fenced(TWIN), *_up(OLD, "late", 4)], OLD) == owed


@pytest.mark.parametrize("end", [fenced(OLD, committed=True), released(OLD, None, None), failed(OLD)])
def test_whoever_was_in_its_place_leaves_it_to_the_next_to_see_whether_it_is_done(end: Record) -> None:
    """What that one had committed may be of an earlier hold, and what it has told may not have been heard."""
    lost = [*HOLDS, fenced(NEW), *_up(OLD, "back", 3), end]
    owed = DueRewind(WANTED, NEW_DEPLOYMENT, {"/a": 7}, owed=True)
    assert due([*lost, standby(TWIN), *_up(TWIN, "more", 4)], TWIN) == owed


ENDS_IT = {
    "it had let go": [released(NEW, None, None)],
    "it has failed, and told why": [failed(NEW)],
    "it had committed": [fenced(NEW, committed=True)],
}


@pytest.mark.parametrize("end", ENDS_IT.values(), ids=ENDS_IT)
def test_then_it_is_over(end: list[Record]) -> None:
    """And so it stays, whatever becomes of checkpoints and queries later."""
    epoch = 3 + sum(record.kind == "acquired" for record in end)
    assert due([*HOLDS, standby(TWIN), *end, *_up(OLD, "back", epoch)], OLD) is None

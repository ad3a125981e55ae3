"""A command that was cut off is gone on with when the same person gives it again."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.steps import Append, CommandIdentity, command_identity, person
from airflow_stream_provider.planning.stop import stop
from tests.support.snapshots import snapshot
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    PREPARED,
    RUNNING,
    STOPPED,
    aborted,
    acquired,
    declared,
    failed,
    play,
    ready,
    record,
    released,
    requested,
    stopped,
    submitted,
)

ANNA = "anna@edge1"
FIRST = CommandIdentity(ANNA, "2026-01-01T00:00:00.000000Z", "stop")
START = CommandIdentity(ANNA, "2026-01-01T00:00:00.000000Z", "start")


def identity(
    *records: Record, operation: Operation = Operation.STOP, part: Operation | None = None, who: str = ANNA
) -> Any:
    return command_identity(play(records), who, operation, part or operation, 1_767_312_000.0)


def test_its_records_say_who_gave_it_and_when() -> None:
    found = identity(*RUNNING)
    assert (found.by, found.continued) == ("person:anna@edge1/2026-01-02T00:00:00.000000Z/stop", False)
    assert found.by.startswith(found.run)
    both = identity(*RUNNING, operation=Operation.RESTART, part=Operation.START)
    assert both.by.endswith("/restart.start")


def test_who_it_is_has_nothing_that_would_end_the_name() -> None:
    assert person("an na/x", "edge1:2") == "an-na-x@edge1-2"
    assert len(person("x" * 300, "h")) == 100


ASKED = [*RUNNING, requested("r", None, by=FIRST.by)]


@pytest.mark.parametrize(
    "records",
    [ASKED, [*ASKED, released(OLD, "r", None)], [*ASKED, released(OLD, "r", None), requested("x", None)][:-1]],
    ids=["open", "done", "drivers still exit"],
)
def test_a_stop_that_was_cut_off_is_gone_on_with(records: list[Record]) -> None:
    found = identity(*records)
    assert (found.by, found.continued) == (FIRST.by, True)
    step = stop(snapshot(*records), found, None, "why")
    assert not isinstance(step, Append) or step.kind == "retired"


@pytest.mark.parametrize(
    "records",
    [
        [*ASKED, aborted("r", name=OLD)],
        [*ASKED, released(OLD, "r", None), requested("s", OLD), ready("s", OLD), acquired(OLD, "s", 2)],
        [*ASKED, released(OLD, "r", None), requested("s", OLD)],
        STOPPED,
    ],
    ids=["missed its boundary", "started since", "is being started", "another's"],
)
def test_one_that_is_over_is_not(records: list[Record]) -> None:
    assert not identity(*records).continued


def test_nobody_goes_on_with_anothers_command() -> None:
    assert not identity(*ASKED, who="bert@edge1").continued
    assert not identity(*ASKED, operation=Operation.RETIRE, part=Operation.STOP).continued
    assert not identity(*RUNNING, requested("r", None, by=f"{FIRST.by}x")).continued


def test_a_start_that_was_cut_off_goes_on_with_what_it_has_declared() -> None:
    mine = record(
        "declared", by=START.by, deployment=NEW_DEPLOYMENT, release=declared(NEW_DEPLOYMENT)["release"], policy={}
    )
    records = [*STOPPED[:1], stopped("s"), mine]
    assert identity(*records, operation=Operation.START).by == START.by
    assert not identity(*records).continued
    up = [*RUNNING, released(OLD, None, None), mine, submitted(NEW_DEPLOYMENT)]
    assert identity(*up, operation=Operation.START).continued
    ended = [*up, failed(None, NEW_DEPLOYMENT)]
    assert not identity(*ended, operation=Operation.START).continued


def test_a_release_that_has_held_is_not_started_again_by_the_old_command() -> None:
    over = [
        *PREPARED,
        requested("up", NEW, by=START.by),
        ready("up", NEW),
        released(OLD, "up", NEW),
        acquired(NEW, "up", 2),
    ]
    assert not identity(*over, operation=Operation.START).continued
    open_one = [*PREPARED, requested("up", NEW, by=START.by)]
    assert identity(*open_one, operation=Operation.START).continued

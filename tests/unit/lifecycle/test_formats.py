"""No kind is written that a driver who may read it does not know; with a kind that there is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle import formats
from airflow_stream_provider.lifecycle.errors import RuleBroken
from airflow_stream_provider.lifecycle.fields import _FIELDS
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.formats import FORMAT, FORMAT_OF
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import RULES
from tests.support import story
from tests.support.simulation.memory_store import MemoryStore
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT

# A made-up kind of the format after this one.
NEWER = "suspended"


@pytest.fixture(autouse=True)
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMAT_OF", {**FORMAT_OF, NEWER: FORMAT + 1})


def declared(deployment: str, format: object) -> Record:
    plain = story.declared(deployment)
    return story.record("declared", **{**plain.fields, "release": {**plain["release"], "format": format}})


def log_of(records: Sequence[Record]) -> ControlLog:
    log = ControlLog(MemoryStore(), "orders")
    story.write(log, *records)
    return log


def suspend(log: ControlLog) -> None:
    log.append(story.record(NEWER), log.state.seq)


def test_a_newer_kind_is_not_written_while_a_driver_lives_that_does_not_know_it() -> None:
    log = log_of([*story.RUNNING, declared(NEW_DEPLOYMENT, FORMAT + 1), story.standby(NEW)])
    with pytest.raises(RuleBroken, match=f"{OLD_DEPLOYMENT} .* knows format 1 only") as refused:
        suspend(log)
    assert refused.value.fields["rule"] == "known-to-all"
    assert refused.value.fields["deployments"] == [OLD_DEPLOYMENT]
    assert log.store.read(log.state.seq + 1) is None

    # The older one is gone, whoever held meanwhile.
    story.write(log, story.requested("up", NEW), story.ready("up", NEW), story.released(OLD, "up", NEW))
    story.write(log, story.acquired(NEW, "up", 2))
    with pytest.raises(RuleBroken):
        suspend(log)
    story.write(log, story.retired(OLD_DEPLOYMENT))
    suspend(log)
    assert log.records()[-1].kind == NEWER


def test_a_driver_counts_from_when_its_deployment_is_declared_and_before_it_says_a_word() -> None:
    log = log_of([declared(NEW_DEPLOYMENT, FORMAT + 1)])
    suspend(log)
    story.write(log, story.declared(OLD_DEPLOYMENT))
    with pytest.raises(RuleBroken, match="Deploy that release anew with this version, or retire it"):
        suspend(log)


@pytest.mark.parametrize("format", [None, "2", True, 2.0, [], 1, 0, -7])
def test_what_no_runtime_announces_counts_as_the_oldest(format: object) -> None:
    with pytest.raises(RuleBroken):
        suspend(log_of([declared(NEW_DEPLOYMENT, format)]))


def test_a_driver_of_a_later_format_knows_the_kind_too() -> None:
    suspend(log_of([declared(NEW_DEPLOYMENT, FORMAT + 7)]))


def test_all_others_may_be_written_and_whoever_reads_takes_what_is_there() -> None:
    log = log_of(story.HANDED_OVER)
    log.append(story.record("noted"), log.state.seq)
    read = fold([story.record(NEWER).numbered(log.state.seq + 1)], log.state)
    assert (read.seq, read.illegal_count, read.holder) == (log.state.seq + 1, 0, NEW)


def test_nobody_creates_a_record_past_the_gate() -> None:
    package = Path(formats.__file__).parents[1]
    creating = {p.relative_to(package).as_posix() for p in package.rglob("*.py") if "store.create(" in p.read_text()}
    assert creating == {"control/log.py"}, "only ControlLog.append"


def test_every_kind_that_is_written_has_its_format() -> None:
    kinds = {value for name, value in vars(Kind).items() if name.isupper()} - {Kind.UNREADABLE}
    assert set(FORMAT_OF) == kinds, "give a new kind the next number in FORMAT_OF; never remove one"
    assert set(FORMAT_OF) == set(RULES) - {Kind.UNREADABLE} == set(_FIELDS)
    assert max(FORMAT_OF.values()) == FORMAT

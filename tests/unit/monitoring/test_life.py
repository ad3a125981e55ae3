"""A stream's life, told by real folds of short stories and of odd ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring.life import LifeEvent, What, life
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    JOB_ENDING,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    RELEASED,
    RUNNING,
    STARTED,
    STOPPED,
    STOPPING,
    TAKEN_BACK,
    TWIN,
    aborted,
    acquired,
    declared,
    failed,
    fenced,
    fencing,
    finished,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    stopped,
    submitted,
)

AGAIN = "orders-1-cccc.00000009"
BACK = [requested("back", OLD), ready("back", OLD), released(NEW, "back", OLD), acquired(OLD, "back", 3)]


def told(records: Iterable[Record], cut: int = 0) -> list[LifeEvent]:
    """Return the events of these records, one a second; without the first ones as of a log that was cut off."""
    numbered = [replace(one, at=100.0 + seq).numbered(seq) for seq, one in enumerate(records, 1)]
    state = fold(numbered)
    illegal = {each.seq for each in state.illegal}
    return life([each for each in numbered[cut:] if each.seq not in illegal], state)


def words(records: Iterable[Record], cut: int = 0) -> list[str]:
    return [event.what.value for event in told(records, cut)]


def again(name: str, *, of: str = OLD_DEPLOYMENT, **more: str) -> list[Record]:
    """A deployment that runs the release of another one again, up to its standby."""
    declares = declared(deployment_of(name))
    release = declared(of)["release"]
    fields = {**declares.fields, "release": release, "again": of, **more}
    return [replace(declares, fields=fields), submitted(deployment_of(name)), standby(name)]


def takes(name: str, request: str, epoch: int, *, by: str = "airflow") -> list[Record]:
    return [requested(request, name, by=by), ready(request, name), acquired(name, request, epoch)]


def test_an_upgrade_is_told_with_who_why_what_and_for_how_long_nobody_held() -> None:
    *_, last = told(HANDED_OVER)
    assert last == LifeEvent(
        seq=len(HANDED_OVER),
        what=What.HANDED_OVER,
        at=100.0 + len(HANDED_OVER),
        by="airflow",
        reason="a person wants it",
        deployment=NEW_DEPLOYMENT,
        incarnation=NEW,
        version="1",
        release=declared(NEW_DEPLOYMENT)["release"]["hash"],
        before=OLD,
        free_seconds=1.0,
    )
    assert words(HANDED_OVER) == ["deployed", "stood_by", "started", "deployed", "stood_by", "handed_over"]


@pytest.mark.parametrize(
    ("records", "end"),
    [
        (PREPARED, ["stood_by"]),
        ([*PREPARED, requested("up", NEW)], ["stood_by", "asked"]),
        (READY, ["stood_by", "asked"]),
        (RELEASED, ["stood_by", "asked", "released"]),
        (INTERRUPTED, ["stood_by", "asked", "released"]),
        (TAKEN_BACK, ["stood_by", "asked", "released", "taken_back"]),
        ([*READY, aborted("up", by="airflow")], ["stood_by", "asked", "aborted"]),
        (STOPPING, ["stood_by", "asked"]),
        ([*STOPPING, aborted("stop", by="airflow")], ["stood_by", "asked", "aborted"]),
        (STOPPED, ["stood_by", "stopped"]),
        ([*STOPPING, failed(OLD)], ["stood_by", "failed", "stopped"]),
        ([*STOPPING, finished(OLD)], ["stood_by", "finished", "stopped"]),
        ([*STOPPED, stopped("again")], ["stood_by", "stopped", "stopped"]),
        ([*RUNNING, released(OLD, None, None)], ["started", "released"]),
        ([*RUNNING, finished(OLD)], ["started", "finished"]),
        ([*RUNNING, fencing(OLD), fenced(OLD)], ["started", "fencing", "fenced"]),
        ([*PREPARED, retired(NEW_DEPLOYMENT)], ["stood_by", "retired"]),
        ([*RUNNING, declared(NEW_DEPLOYMENT), failed(None, NEW_DEPLOYMENT)], ["deployed", "failed"]),
        ([*RUNNING, declared(NEW_DEPLOYMENT), failed(NEW)], ["deployed", "refused"]),
        ([*PREPARED, failed(NEW)], ["stood_by", "failed"]),
        ([*PREPARED, failed(TWIN)], ["stood_by", "refused"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value[0], str) else "",
)
def test_each_story_has_its_words(records: list[Record], end: list[str]) -> None:
    assert words(records)[-len(end) :] == end


@pytest.mark.parametrize(
    ("records", "what"),
    [
        ([*HANDED_OVER, *BACK], "rolled_back"),
        ([*HANDED_OVER, fenced(NEW), *takes(OLD, "back", 3)], "rolled_back"),
        ([*HANDED_OVER, *again(AGAIN, instead_of=NEW_DEPLOYMENT), fenced(NEW), *takes(AGAIN, "b", 3)], "rolled_back"),
        (
            [
                *HANDED_OVER,
                requested("stop", None),
                released(NEW, "stop", None),
                *again(AGAIN, instead_of=NEW_DEPLOYMENT),
                *takes(AGAIN, "b", 3),
            ],
            "rolled_back",
        ),
        ([*HANDED_OVER, requested("s", None), released(NEW, "s", None), *takes(OLD, "b", 3)], "started"),
        ([*READY, fenced(OLD), acquired(NEW, "up", 2)], "handed_over"),
        ([*RUNNING, failed(OLD), *again(AGAIN), *takes(AGAIN, "r", 2)], "revived"),
        ([*RUNNING, released(OLD, None, None), *takes(OLD, "r", 2)], "revived"),
        ([*RUNNING, fenced(OLD), *again(AGAIN), *takes(AGAIN, "r", 2)], "revived"),
        ([*RUNNING, finished(OLD), *again(AGAIN), *takes(AGAIN, "r", 2)], "started"),
        ([*STOPPED, *takes(NEW, "r", 2)], "started"),
        (
            [*PREPARED, requested("s", None, by="x/stop", until=9.0), released(OLD, "s", None), *takes(NEW, "r", 2)],
            "revived",
        ),
        ([*RUNNING, failed(OLD), stopped("s"), *again(AGAIN), *takes(AGAIN, "r", 2)], "started"),
        (RUNNING, "started"),
    ],
)
def test_how_a_driver_came_to_hold(records: list[Record], what: str) -> None:
    """By what the log says, not by the name of whoever asked."""
    event = told(records)[-1]
    assert (event.what.value, event.by, event.reason) == (what, "airflow", "a person wants it")


def test_the_way_back_and_forth_is_told_by_where_it_leads() -> None:
    forth = [requested("on", NEW), ready("on", NEW), released(OLD, "on", NEW), acquired(NEW, "on", 4)]
    assert words([*HANDED_OVER, *BACK, *forth])[-3:] == ["handed_over", "rolled_back", "handed_over"]


def test_what_was_asked_for_in_vain_is_told_with_who_asked_and_who_gave_it_up() -> None:
    asked, given_up = told([*READY, aborted("up", by="driver", name=OLD)])[-2:]
    assert (asked.what, asked.by, asked.incarnation) == (What.ASKED, "airflow", NEW)
    assert asked.reason == f"{NEW_DEPLOYMENT} shall hold the stream: a person wants it"
    assert (given_up.what, given_up.by, given_up.reason, given_up.deployment) == (
        What.ABORTED,
        "driver",
        "enough",
        NEW_DEPLOYMENT,
    )
    stop = told(STOPPING)[-1]
    assert (stop.incarnation, stop.reason) == (OLD, f"{OLD_DEPLOYMENT} shall stop: a person wants it")


def test_a_reason_that_only_names_its_author_is_none() -> None:
    """An operator that was given no reason writes its task's name."""
    declares = replace(declared(OLD_DEPLOYMENT), by="airflow:d/r/t")
    unsaid = replace(declares, fields={**declares.fields, "reason": declares.by})
    asks = replace(
        requested("start", OLD, by="airflow:d/r/t"), fields={**requested("start", OLD).fields, "reason": declares.by}
    )
    events = told([unsaid, *STARTED[1:], asks])
    assert events[0].reason == ""
    assert events[-1].reason == f"{OLD_DEPLOYMENT} shall hold the stream: no reason given"


def test_a_stop_is_told_with_who_asked_and_the_failure_that_came_first() -> None:
    failure, stop = told([*STOPPING, failed(OLD)])[-2:]
    assert (failure.by, failure.reason) == ("test", "it broke: Boom")
    assert (stop.by, stop.reason, stop.incarnation) == ("airflow", "a person wants it", OLD)


def test_a_driver_that_leaves_by_itself_or_inside_a_batch_says_so() -> None:
    left = told([*RUNNING, released(OLD, None, None, "interrupted")])[-1]
    assert "SIGTERM" in left.reason
    assert left.reason.endswith("It stopped inside a batch.")
    assert told(INTERRUPTED)[-1].reason == "It stopped inside a batch."


def test_what_a_person_has_confirmed_is_in_the_evidence() -> None:
    confirmed = replace(fenced(OLD), fields={**fenced(OLD).fields, "evidence": {"person": "ann"}})
    assert told([*RUNNING, confirmed])[-1].evidence == {"person": "ann"}
    assert told([*RUNNING, fenced(OLD)])[-1].evidence == {"found": "the cluster says so"}


def test_nobody_has_run_the_stream_since_the_last_sign_of_life_of_a_driver_that_is_fenced_later() -> None:
    dead = replace(fenced(OLD), fields={**fenced(OLD).fields, "evidence": {"last_sign": 40.0}})
    records = [*RUNNING, dead, *again(AGAIN), *takes(AGAIN, "r", 2)]
    last = told(records)[-1]
    assert (last.what, last.free_seconds) == (What.REVIVED, 100.0 + len(records) - 40.0)


def test_kinds_of_a_later_version_are_told_and_change_nothing() -> None:
    odd = record("suspended", by="airflow:newer", incarnation={"not": "text"}, reason=[1])
    unknown = told([*RUNNING, odd, *HANDED_OVER[len(RUNNING) :]])[len(RUNNING) - 3]
    assert (unknown.what, unknown.by, unknown.incarnation) == (What.UNKNOWN, "airflow:newer", "")
    assert "'suspended'" in unknown.reason
    assert words([*RUNNING, odd, *HANDED_OVER[len(RUNNING) :]])[-1] == "handed_over"


def test_a_second_hand_over_beside_an_open_one_is_told_as_refused_when_somebody_has_written_it() -> None:
    """No append writes it; here it was forged into the log."""
    twin = [standby(TWIN), requested("up", NEW), requested("other", TWIN, by="somebody")]
    events = told([*PREPARED, *twin])
    assert [event.what.value for event in events][-2:] == ["asked", "illegal"]
    assert (events[-1].at, events[-1].by) == (None, "")
    assert "'requested' broke the rule 'one-request'" in events[-1].reason
    rest = [ready("up", NEW), released(OLD, "up", NEW), acquired(NEW, "up", 2)]
    assert words([*PREPARED, *twin, *rest])[-2:] == ["illegal", "handed_over"]


def test_an_empty_log_has_no_events() -> None:
    assert told([]) == []


@pytest.mark.parametrize("cut", range(len(HANDED_OVER)))
def test_a_log_that_was_cut_off_anywhere_is_told_as_far_as_it_goes(cut: int) -> None:
    whole, found = told(HANDED_OVER), told(HANDED_OVER, cut)
    assert [event.seq for event in found] == [event.seq for event in whole if event.seq > cut]
    last = found[-1]
    assert (last.version, last.by, last.reason) == ("1", "airflow", "a person wants it")
    assert (last.what is What.HANDED_OVER) == (cut < len(RELEASED))


@pytest.mark.parametrize("story", [STOPPED, TAKEN_BACK, [*RUNNING, failed(OLD)], [*RUNNING, fenced(OLD)], STARTED])
def test_every_cut_of_every_story_can_be_told(story: list[Record]) -> None:
    for cut in range(len(story) + 1):
        told(story, cut)


@pytest.mark.parametrize("evidence", [{"job": "driver-1", "state": "killed"}, {"person": "ann"}])
def test_a_job_that_was_adopted_is_named_with_who_said_that_it_is_gone(evidence: dict[str, str]) -> None:
    asked = requested("start", OLD)
    asked = replace(asked, fields={**asked.fields, "evidence": evidence})
    found = told([*STARTED, asked, ready("start", OLD), acquired(OLD, "start", 1)])[-1]
    assert (found.what, found.evidence, found.reason) == (What.ADOPTED, evidence, "a person wants it")


def test_the_end_of_a_job_and_a_stop_for_a_start_are_told_as_what_they_are() -> None:
    ended = told(JOB_ENDING)[-1]
    assert (ended.what, ended.evidence, ended.deployment) == (What.ENDING, {"job": "driver-1"}, OLD_DEPLOYMENT)
    restart = "airflow:orders__operate/run/"
    stop = [requested("s", None, by=f"{restart}stop", until=300.0), released(OLD, "s", None)]
    start = replace(requested("r", NEW), by=f"{restart}start")
    found = told([*PREPARED, *stop, start, ready("r", NEW), acquired(NEW, "r", 2)])
    assert [(each.what, each.reason) for each in found[-2:]] == [
        (What.STOPPED, "To start it again. a person wants it"),
        (What.STARTED, "a person wants it"),
    ]


def test_that_records_are_read_again_is_told_with_the_time() -> None:
    plain = declared(NEW_DEPLOYMENT)
    wanted = {"to": 1764000000.0, "queries": {"a": {"orders": {"0": 7}}}}
    more = {"redeployed": True, "rewind": wanted, "reason": "wrong rates"}
    event = told([*RUNNING, replace(plain, fields={**plain.fields, **more})])[-1]
    assert (event.what, event.reason) == (
        What.DEPLOYED_AGAIN,
        "Reads records again since 2025-11-24 16:00:00 UTC. wrong rates",
    )
    odd = told([*RUNNING, replace(plain, fields={**plain.fields, **more, "rewind": "yes"})])[-1]
    assert odd.reason == "wrong rates"

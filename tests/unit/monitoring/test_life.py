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
    submitted,
    wanted,
)

AGAIN = "orders-1-cccc.00000009"
SINCE = {"to": 1764000000.0, "queries": {"a": {"orders": {"0": 7}}}}
BACK_WISH = wanted("back", back=True)
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


def takes(name: str, request: str, epoch: int, *, by: str = "airflow", wish: str = "") -> list[Record]:
    return [requested(request, name, by=by, wish=wish), ready(request, name), acquired(name, request, epoch)]


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
        (STOPPING, ["stood_by", "wanted", "asked"]),
        ([*STOPPING, aborted("stop", by="airflow")], ["wanted", "asked", "aborted"]),
        (STOPPED, ["stood_by", "wanted", "stopped"]),
        ([*STOPPING, failed(OLD)], ["wanted", "failed", "stopped"]),
        ([*STOPPING, finished(OLD)], ["wanted", "finished", "stopped"]),
        ([*RUNNING, wanted("r", "leave"), fenced(OLD)], ["wanted", "fenced", "stopped"]),
        ([*RUNNING, wanted("n", "stand_by"), wanted("t", family="n")], ["started", "wanted", "wanted"]),
        ([*STOPPED, wanted("again", "stop")], ["wanted", "stopped", "stopped"]),
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
        (
            [*HANDED_OVER, BACK_WISH, *again(AGAIN, family="back"), fenced(NEW), *takes(AGAIN, "b", 3, wish="back")],
            "rolled_back",
        ),
        (
            [
                *HANDED_OVER,
                BACK_WISH,
                released(NEW, None, None),
                *again(AGAIN, family="back"),
                *takes(AGAIN, "b", 3, wish="back"),
            ],
            "rolled_back",
        ),
        ([*HANDED_OVER, BACK_WISH, *BACK, failed(OLD), *again(AGAIN), *takes(AGAIN, "b", 4, wish="back")], "revived"),
        ([*HANDED_OVER, requested("s", None), released(NEW, "s", None), *takes(OLD, "b", 3)], "started"),
        ([*READY, fenced(OLD), acquired(NEW, "up", 2)], "handed_over"),
        ([*RUNNING, failed(OLD), *again(AGAIN), *takes(AGAIN, "r", 2)], "revived"),
        ([*RUNNING, released(OLD, None, None), *takes(OLD, "r", 2)], "revived"),
        ([*RUNNING, fenced(OLD), *again(AGAIN), *takes(AGAIN, "r", 2)], "revived"),
        ([*RUNNING, finished(OLD), *again(AGAIN), *takes(AGAIN, "r", 2)], "started"),
        ([*STOPPED, *takes(NEW, "r", 2)], "started"),
        ([*RUNNING, failed(OLD), wanted("s", "stop"), wanted("go"), *again(AGAIN), *takes(AGAIN, "r", 2)], "started"),
        (
            [
                *RUNNING,
                wanted("go", alone=True),
                requested("s", None, wish="go"),
                released(OLD, "s", None),
                *again(AGAIN),
                *takes(AGAIN, "r", 2),
            ],
            "started",
        ),
        ([*RUNNING, wanted("go"), failed(OLD), *again(AGAIN), *takes(AGAIN, "r", 2)], "revived"),
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
    stop = [wanted("go", alone=True), requested("s", None, wish="go"), released(OLD, "s", None)]
    found = told([*PREPARED, *stop, *takes(NEW, "r", 2, wish="go")])
    assert [(each.what, each.reason) for each in found[-3:]] == [
        (What.WANTED, "Release 1 shall hold the stream once the holder has stopped: a person wants it"),
        (What.STOPPED, "To start it again. a person wants it"),
        (What.STARTED, "a person wants it"),
    ]


def test_a_wish_is_told_with_what_who_why_and_which_one_it_replaces() -> None:
    hash = wanted("n")["release"]["hash"]
    wishes = [
        wanted("o", by="person:ann"),
        wanted("n", "stand_by", release={"version": "2", "hash": hash}),
        wanted("m", "stand_by", release={"version": "3", "hash": hash}, rewind=SINCE),
        wanted("t", family="m", by="airflow:d/r/t", reason="airflow:d/r/t"),
        wanted("b", family="o", back=True),
        wanted("s", "stop", by="person:ben"),
        wanted("l", "leave"),
        wanted("a", "stand_by"),
    ]
    found = [(e.what.value, e.by, e.version, e.replaces, e.reason.partition(": ")[0]) for e in told(wishes)]
    assert found == [
        ("wanted", "person:ann", "1", 0, "Release 1 shall hold the stream"),
        ("wanted", "airflow", "2", 0, "Release 2 shall stand by"),
        ("wanted", "airflow", "3", 2, "Reads records again since 2025-11-24 16:00:00 UTC. Release 3 shall stand by"),
        ("wanted", "airflow:d/r/t", "3", 1, "Release 3 shall hold the stream"),
        ("wanted", "airflow", "1", 4, "Release 1 shall hold the stream again"),
        ("stopped", "person:ben", "", 5, "No driver shall hold the stream"),
        ("stopped", "airflow", "", 6, "No driver shall hold the stream any more"),
        ("wanted", "airflow", "1", 0, "Release 1 shall stand by"),
    ]
    assert told(wishes)[3].reason.endswith(": no reason given")
    for cut in range(len(wishes)):
        assert told(wishes, cut) == told(wishes)[cut:], "also of a log that was cut off"


def test_what_comes_true_is_told_with_whoever_wished_it_and_a_revival_with_whoever_revived() -> None:
    wish, watch = wanted("n", by="person:ann"), "airflow:orders__revive/r/revive"
    handed = [requested("up", NEW, by=watch, wish="n"), ready("up", NEW), released(OLD, "up", NEW)]
    taken = [*PREPARED, wish, *handed, acquired(NEW, "up", 2)]
    assert (told(taken)[-1].what, told(taken)[-1].by) == (What.HANDED_OVER, "person:ann")
    more = again(AGAIN, of=NEW_DEPLOYMENT)
    revived = told([*taken, failed(NEW), *more, *takes(AGAIN, "x", 3, by=watch, wish="n")])[-1]
    assert (revived.what, revived.by) == (What.REVIVED, watch)
    stopped = told(
        [*taken, wanted("s", "stop", by="person:ben"), requested("s", None, by=watch, wish="s"), failed(NEW)]
    )
    assert (stopped[-1].what, stopped[-1].by, stopped[-1].reason) == (
        What.STOPPED,
        "person:ben",
        "a person wants it",
    )


def test_that_records_are_read_again_is_told_with_the_time() -> None:
    plain = declared(NEW_DEPLOYMENT)
    more = {"family": "w", "rewind": SINCE, "reason": "wrong rates"}
    wish = wanted("w", "stand_by", redeployed=True)
    event = told([*RUNNING, wish, replace(plain, fields={**plain.fields, **more})])[-1]
    assert (event.what, event.reason) == (
        What.DEPLOYED_AGAIN,
        "Reads records again since 2025-11-24 16:00:00 UTC. wrong rates",
    )
    odd = told([*RUNNING, wish, replace(plain, fields={**plain.fields, **more, "rewind": "yes"})])[-1]
    assert odd.reason == "wrong rates"

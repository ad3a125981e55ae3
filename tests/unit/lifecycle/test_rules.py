"""The transition table, row by row: what is legal, and every rule broken once by name."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import RuleBroken
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import RULES, check
from tests.support.story import (
    FOLLOWING,
    HANDED_OVER,
    INTERRUPTED,
    JOB_ENDING,
    JOB_GONE,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    RELEASED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    STOPPING,
    TWIN,
    aborted,
    acquired,
    declared,
    ending,
    failed,
    fenced,
    fencing,
    finished,
    following,
    play,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    submitted,
    wanted,
)

OTHER = "orders-3-cccc"
NO_DRIVER = "orders-2-bbbb.0000000f"

SOUND = {"version": "1", "hash": "0" * 64}


def declaring(**release: Any) -> Record:
    return record("declared", deployment=OTHER, release={**SOUND, **release})


def limited(**policy: Any) -> Record:
    return record("declared", deployment=OTHER, release=SOUND, policy=policy)


def announcing(queries: list[Any]) -> Record:
    return record("standby", deployment=OLD_DEPLOYMENT, incarnation=OLD, queries=queries)


ADOPT = wanted("w", policy={"adopts": True})
ASKED = [*PREPARED, wanted("w"), requested("up", NEW, wish="w")]
# The wish of a deployment's family may be left out of the state.
NAMED = [wanted("gone"), declared(OTHER, "gone")]

LEGAL = [
    ("a release under the whole of its hash", [], declaring(hash="0" * 64, conf={"a": "b"}, environment={"C": "d"})),
    ("a deployment", [], declared(OLD_DEPLOYMENT)),
    ("its submission", STARTED[:1], submitted(OLD_DEPLOYMENT)),
    ("a submission that came in after the end", [*STARTED[:1], retired(OLD_DEPLOYMENT)], submitted(OLD_DEPLOYMENT)),
    ("its driver", STARTED[:2], standby(OLD)),
    ("a driver that was quicker than the record of its submission", STARTED[:1], standby(OLD)),
    ("a relaunched twin of the holder's deployment", HANDED_OVER, standby(TWIN)),
    ("the first start", STARTED, requested("start", OLD)),
    ("a hand-over", PREPARED, requested("up", NEW)),
    ("a stop", PREPARED, requested("stop", None)),
    ("a warm roll-back", HANDED_OVER, requested("back", OLD)),
    ("a request after an aborted one", [*REQUESTED, aborted("up", at=200)], requested("again", NEW)),
    ("the answer", REQUESTED, ready("up", NEW)),
    ("an answer to a request whose holder died", [*REQUESTED, fenced(OLD)], ready("up", NEW)),
    ("a release as requested", READY, released(OLD, "up", NEW)),
    ("a release inside a batch", READY, released(OLD, "up", NEW, "interrupted")),
    ("a stop needs no answer", STOPPING, released(OLD, "stop", None)),
    ("SIGTERM", RUNNING, released(OLD, None, None)),
    ("SIGTERM while a hand-over is open", READY, released(OLD, None, None)),
    ("the appointed acquires", RELEASED, acquired(NEW, "up", 2)),
    ("the releaser takes back", RELEASED, acquired(OLD, "up", 2)),
    ("the appointed after SIGTERM", [*READY, released(OLD, None, None)], acquired(NEW, "up", 2)),
    ("the appointed after the holder failed", [*READY, failed(OLD)], acquired(NEW, "up", 2)),
    ("the appointed after a fence", [*READY, fenced(OLD)], acquired(NEW, "up", 2)),
    ("the appointed after an interrupted one was fenced", [*INTERRUPTED, fenced(OLD)], acquired(NEW, "up", 2)),
    ("the releaser after the appointed was fenced", [*RELEASED, fenced(NEW)], acquired(OLD, "up", 2)),
    ("a kill of the holder", RUNNING, fencing(OLD)),
    ("a kill of a standby", PREPARED, fencing(NEW)),
    ("a kill of an interrupted one", INTERRUPTED, fencing(OLD)),
    ("a release by one that is about to be killed", [*READY, fencing(OLD)], released(OLD, "up", NEW)),
    ("a fence of one that was killed", [*RUNNING, fencing(OLD)], fenced(OLD)),
    ("a wish for a release", [], wanted("w")),
    ("a wish for the release of another one", [*RUNNING, wanted("w")], wanted("v", family="w")),
    ("a wish for a release of which only a deployment is left", NAMED, wanted("v", family="gone")),
    ("a wish that nobody holds, whatever is open", READY, wanted("w", "stop")),
    ("a wish to leave what never ran", [], wanted("w", "leave")),
    ("a candidate beside a holder", RUNNING, wanted("w", "stand_by")),
    ("a deployment that serves a wish", [wanted("w")], declared(OTHER, "w")),
    ("a deployment that serves a wish that was replaced", [wanted("w"), wanted("v", "stop")], declared(OTHER, "w")),
    ("an appointment after a stop", [*PREPARED, failed(OLD), wanted("w", "stop")], requested("go", NEW)),
    ("anyone aborts what another wish has replaced", [*ASKED, wanted("v", "stop")], aborted("up")),
    ("anyone aborts a stop that was taken back", [*STOPPING, wanted("v")], aborted("stop")),
    ("a fence of the holder", RUNNING, fenced(OLD)),
    ("a fence of a standby", PREPARED, fenced(NEW)),
    ("a fence of an interrupted one", INTERRUPTED, fenced(OLD)),
    ("anyone aborts what has expired", READY, aborted("up", at=200)),
    ("the requester aborts its own", READY, aborted("up", by="airflow")),
    ("the holder that missed its boundary aborts", READY, aborted("up", name=OLD)),
    ("anyone aborts when the appointed is lost", [*READY, fenced(NEW)], aborted("up")),
    ("anyone aborts when both are lost", [*RELEASED, fenced(OLD), fenced(NEW)], aborted("up")),
    ("a refused rehearsal", PREPARED[:-1], failed(NEW)),
    ("a failed standby", PREPARED, failed(NEW)),
    ("a failed holder", RUNNING, failed(OLD)),
    ("a holder that failed inside a batch", RUNNING, failed(OLD, boundary="interrupted")),
    ("a twin that fails beside the holder", HANDED_OVER, failed(TWIN)),
    ("a driver that never came up", PREPARED[:-1], failed(None, NEW_DEPLOYMENT)),
    ("a deployment whose only driver is fenced", [*PREPARED, fenced(NEW)], failed(None, NEW_DEPLOYMENT)),
    ("a holder whose queries ended by themselves", RUNNING, finished(OLD)),
    ("retiring the old after a hand-over", HANDED_OVER, retired(OLD_DEPLOYMENT)),
    ("retiring a standby", PREPARED, retired(NEW_DEPLOYMENT)),
    ("retiring after a stop", STOPPED, retired(OLD_DEPLOYMENT)),
    ("retiring what has not come up", PREPARED[:-2], retired(NEW_DEPLOYMENT)),
    ("a wish to adopt", [], ADOPT),
    ("a wish to adopt what was stopped", STOPPED, ADOPT),
    ("a wish to adopt, once more", JOB_ENDING, wanted("more", policy={"adopts": True})),
    ("a follower of a job", [ADOPT], following(OLD_DEPLOYMENT, "w")),
    ("a follower of a job of a stream that was stopped", [*STOPPED, ADOPT], following(OTHER, "w")),
    ("a second follower, once the first one failed to follow", JOB_ENDING, following(OTHER, "adopt")),
    ("the intent to end the job", FOLLOWING, ending(OLD_DEPLOYMENT)),
    ("the follower's appointment", JOB_ENDING, JOB_GONE[-1]),
    ("the follower's, once more, once the job is confirmed gone", [*JOB_GONE, aborted("adopt", by="airflow")],
     requested("go", OLD)),
    ("another's, once the job is confirmed gone", [*JOB_GONE, fenced(OLD), aborted("adopt"), *PREPARED[-3:]],
     requested("go", NEW)),
    ("another's, with the proof that the job is gone", [*JOB_ENDING, *PREPARED[-3:]],
     requested("go", NEW, evidence={"job": "driver-1"})),
    ("another's, once the follower is called off of a job that nobody has begun to end",
     [*FOLLOWING, retired(OLD_DEPLOYMENT), *PREPARED[-3:]], requested("go", NEW)),
    ("another's, once a person has stopped the stream", [*JOB_ENDING, retired(OLD_DEPLOYMENT), wanted("w", "stop"),
     *PREPARED[-3:]], requested("go", NEW)),
    ("another's, of a stream that has run since", [*JOB_GONE, ready("adopt", OLD), acquired(OLD, "adopt", 1),
     fenced(OLD), *PREPARED[-3:]], requested("go", NEW)),
    ("a kind of a newer version", RUNNING, record("paused", incarnation=OLD)),
]  # fmt: skip

REFUSED = [
    ("wanted", "complete", [], record("wanted", wish="w")),
    ("wanted", "sound-fields", [], wanted("w", alone="yes")),
    ("wanted", "sound-fields", [], wanted("w", adopts="yes")),
    ("wanted", "sound-fields", [], wanted("w", max_seconds="x")),
    ("wanted", "sound-fields", [], wanted("w", rewind="all")),
    ("wanted", "sound-fields", [], wanted("w", release={"version": "1", "hash": "../.."})),
    ("wanted", "known-goal", [], wanted("w", "dance")),
    ("wanted", "wish-once", [wanted("w")], wanted("w", "stop")),
    ("wanted", "known-family", [], wanted("w", family="")),
    ("wanted", "known-family", RUNNING, wanted("w", family="nobody's")),
    ("wanted", "known-family", STOPPED, wanted("w", family="rest")),
    ("wanted", "known-family", [wanted("w"), wanted("v", family="w")], wanted("u", family="v")),
    ("wanted", "adopt-at-rest", RUNNING, ADOPT),
    ("wanted", "adopt-at-rest", [*RUNNING, fenced(OLD)], ADOPT),
    ("wanted", "adopt-at-rest", [wanted("v")], ADOPT),
    ("declared", "wish-first", RUNNING, declared(OTHER, "nobody's")),
    ("declared", "wish-first", STOPPED, declared(OTHER, "rest")),
    ("declared", "adopt-at-rest", [], following(OTHER)),
    ("declared", "adopt-at-rest", RUNNING, following(OTHER)),
    ("declared", "adopt-at-rest", [*RUNNING, fenced(OLD)], following(OTHER)),
    ("declared", "adopt-at-rest", [ADOPT, *RUNNING, fenced(OLD)], following(OTHER, "w")),
    ("aborted", "abort-in-time", ASKED, aborted("up")),
    ("aborted", "abort-in-time", [*ASKED, wanted("v", family="w")], aborted("up")),
    ("aborted", "abort-in-time", [*STOPPING, wanted("v", "leave")], aborted("stop")),
    ("aborted", "abort-in-time", [*ASKED, ready("up", NEW), released(OLD, "up", NEW), wanted("v", "stop")],
     aborted("up")),
    ("requested", "job-gone-first", FOLLOWING, requested("go", OLD)),
    ("requested", "job-gone-first", JOB_ENDING, requested("go", OLD)),
    ("requested", "job-gone-first", [*FOLLOWING, *PREPARED[-3:]], requested("go", NEW)),
    ("requested", "job-gone-first", [*JOB_ENDING, *PREPARED[-3:]], requested("go", NEW)),
    ("requested", "job-gone-first", [*JOB_ENDING, retired(OLD_DEPLOYMENT), *PREPARED[-3:]], requested("go", NEW)),
    ("requested", "job-gone-first", [*JOB_ENDING, failed(OLD), *PREPARED[-3:]], requested("go", NEW)),
    ("ending", "complete", FOLLOWING, record("ending", deployment=OLD_DEPLOYMENT, expires=1.0)),
    ("ending", "sound-fields", FOLLOWING, record("ending", deployment=OLD_DEPLOYMENT, expires="soon", reason="why")),
    ("ending", "intent-first", [], ending(OLD_DEPLOYMENT)),
    ("ending", "not-ended", [*FOLLOWING, retired(OLD_DEPLOYMENT)], ending(OLD_DEPLOYMENT)),
    ("ending", "one-request", JOB_GONE, ending(OLD_DEPLOYMENT)),
    ("ending", "nobody-holds", RUNNING, ending(OLD_DEPLOYMENT)),
    ("ending", "only-a-follower", STARTED, ending(OLD_DEPLOYMENT)),
    ("declared", "complete", [], record("declared", deployment=OTHER)),
    ("declared", "sound-id", [], declared("../orders")),
    ("declared", "declare-once", STARTED, declared(OLD_DEPLOYMENT)),
    ("declared", "sound-fields", [], declaring(hash="../../..")),
    ("declared", "sound-fields", [], declaring(hash="0" * 17)),
    ("declared", "sound-fields", [], declaring(hash="A" * 16)),
    ("declared", "sound-fields", [], declaring(hash="")),
    ("declared", "sound-fields", [], record("declared", deployment=OTHER, release=SOUND, again=[OTHER])),
    ("declared", "sound-fields", [], record("declared", deployment=OTHER, release=SOUND, family=7)),
    ("declared", "sound-fields", [], declaring(application="../../evil.py")),
    ("declared", "sound-fields", [], declaring(py_files=["/etc/passwd"])),
    ("declared", "sound-fields", [], declaring(arguments=[7])),
    ("declared", "sound-fields", [], declaring(conf={"spark.x": 7})),
    *(("declared", "sound-fields", [], declaring(environment=odd)) for odd in ("abc", ["A"], {"A": 7}, {"A": None})),
    ("declared", "sound-fields", [], record("declared", deployment=OTHER, release=SOUND, policy=[])),
    ("declared", "sound-fields", [], record("declared", deployment=OTHER, release="the newest")),
    ("declared", "sound-fields", [], limited(lease_seconds="30")),
    ("declared", "sound-fields", [], limited(lease_seconds=-1)),
    ("declared", "sound-fields", [], limited(foreach_batch_safe=1)),
    ("submitted", "sound-fields", STARTED[:1], record("submitted", deployment=OLD_DEPLOYMENT, submission=7)),
    ("standby", "sound-fields", STARTED[:2], announcing(["totals"])),
    ("standby", "sound-fields", STARTED[:2], announcing([{"name": 7}])),
    ("requested", "sound-fields", PREPARED, record("requested", request="up", to=NEW, expires="never")),
    ("requested", "sound-fields", PREPARED, record("requested", request="up", to=NEW, expires=float("inf"))),
    ("requested", "sound-fields", PREPARED, record("requested", request=["up"], to=NEW, expires=200.0)),
    ("ready", "sound-fields", REQUESTED, record("ready", request="up", incarnation=[NEW])),
    ("released", "sound-fields", READY, record("released", incarnation=OLD, boundary="completed", ends=7)),
    ("acquired", "sound-fields", RELEASED, record("acquired", incarnation=NEW, request="up", epoch=2.0)),
    ("fenced", "sound-fields", RUNNING, record("fenced", incarnation=OLD, reason=7, evidence="seen")),
    ("aborted", "sound-fields", READY, record("aborted", request={}, reason="enough")),
    ("failed", "sound-fields", RUNNING, record("failed", deployment=OLD_DEPLOYMENT, incarnation={}, reason="it broke")),
    ("finished", "sound-fields", RUNNING, record("finished", incarnation=[OLD])),
    ("retired", "sound-fields", HANDED_OVER, record("retired", deployment=[OLD_DEPLOYMENT])),
    ("unreadable", "readable", RUNNING, Record.read(b"garbage", 7)),
    ("submitted", "complete", STARTED[:1], record("submitted", deployment=OLD_DEPLOYMENT)),
    ("submitted", "intent-first", [], submitted(OTHER)),
    ("submitted", "submit-once", STARTED, submitted(OLD_DEPLOYMENT)),
    ("standby", "complete", STARTED, record("standby", deployment=OLD_DEPLOYMENT)),
    ("standby", "intent-first", [], standby(OLD)),
    ("standby", "not-ended", [*HANDED_OVER, retired(OLD_DEPLOYMENT)], standby("orders-1-aaaa.00000009")),
    ("standby", "sound-id", RUNNING, record("standby", deployment=OLD_DEPLOYMENT, incarnation=NEW)),
    ("standby", "sound-id", RUNNING, standby("orders-1-aaaa.1")),
    ("standby", "announce-once", RUNNING, standby(OLD)),
    ("requested", "complete", PREPARED, record("requested", request="up", to=NEW)),
    ("requested", "ask-once", HANDED_OVER, requested("up", OLD)),
    ("requested", "ask-once", [*REQUESTED, aborted("up", at=200)], requested("up", NEW)),
    ("requested", "one-request", REQUESTED, requested("other", NEW)),
    ("requested", "one-request", RELEASED, requested("other", OLD)),
    ("requested", "stop-needs-holder", STARTED, requested("stop", None)),
    ("requested", "to-a-standby", RUNNING, requested("up", OLD)),
    ("requested", "to-a-standby", RUNNING, requested("up", NO_DRIVER)),
    ("requested", "to-a-standby", [*PREPARED, fenced(NEW)], requested("up", NEW)),
    ("requested", "to-a-standby", [*PREPARED, standby(TWIN), retired(NEW_DEPLOYMENT)], requested("up", TWIN)),
    ("ready", "complete", REQUESTED, record("ready", request="up")),
    ("ready", "answer-open", PREPARED, ready("up", NEW)),
    ("ready", "answer-open", READY, ready("up", NEW)),
    ("ready", "answer-open", [*REQUESTED, aborted("up", at=200)], ready("up", NEW)),
    ("ready", "only-the-asked", REQUESTED, ready("up", OLD)),
    ("ready", "only-the-asked", [*REQUESTED, fenced(NEW)], ready("up", NEW)),
    ("ready", "only-the-asked", STOPPING, ready("stop", OLD)),
    ("released", "complete", READY, record("released", incarnation=OLD, request="up", to=NEW)),
    ("released", "only-the-holder", READY, released(NEW, "up", NEW)),
    ("released", "only-the-holder", RELEASED, released(OLD, "up", NEW)),
    ("released", "only-the-holder", [*READY, fenced(OLD)], released(OLD, "up", NEW)),
    ("released", "boundary-known", READY, released(OLD, "up", NEW, "somehow")),
    ("released", "as-requested", REQUESTED, released(OLD, "up", NEW)),
    ("released", "as-requested", READY, released(OLD, "up", None)),
    ("released", "as-requested", READY, released(OLD, None, NEW)),
    ("released", "as-requested", READY, released(OLD, "down", NEW)),
    ("released", "as-requested", [*READY, aborted("up", at=200)], released(OLD, "up", NEW)),
    ("released", "as-requested", [*READY, failed(NEW)], released(OLD, "up", NEW)),
    ("acquired", "complete", RELEASED, record("acquired", incarnation=NEW, epoch=2)),
    ("acquired", "one-holder", READY, acquired(NEW, "up", 2)),
    ("acquired", "one-holder", HANDED_OVER, acquired(OLD, "up", 3)),
    ("acquired", "fence-first", INTERRUPTED, acquired(NEW, "up", 2)),
    ("acquired", "fence-first", INTERRUPTED, acquired(OLD, "up", 2)),
    ("acquired", "fence-first", [*READY, failed(OLD, boundary="interrupted")], acquired(NEW, "up", 2)),
    ("acquired", "only-the-appointed", [*REQUESTED, fenced(OLD)], acquired(NEW, "up", 2)),
    ("acquired", "only-the-appointed", [*RELEASED, standby(TWIN)], acquired(TWIN, "up", 2)),
    ("acquired", "only-the-appointed", STOPPED, acquired(OLD, "stop", 2)),
    ("acquired", "only-the-appointed", [*READY, released(OLD, None, None)], acquired(OLD, "up", 2)),
    ("acquired", "only-the-appointed", [*RELEASED, fenced(NEW)], acquired(NEW, "up", 2)),
    ("acquired", "only-the-appointed", [*READY, fenced(OLD), aborted("up", at=200)], acquired(NEW, "up", 2)),
    ("acquired", "next-epoch", RELEASED, acquired(NEW, "up", 1)),
    ("acquired", "next-epoch", RELEASED, acquired(NEW, "up", 3)),
    ("fencing", "complete", RUNNING, record("fencing", incarnation=OLD)),
    ("fencing", "sound-fields", RUNNING, record("fencing", incarnation=OLD, reason=7)),
    ("fencing", "known-driver", RUNNING, fencing(NO_DRIVER)),
    ("fencing", "fence-once", [*RUNNING, fenced(OLD)], fencing(OLD)),
    ("fencing", "say-why", RUNNING, fencing(OLD, reason="")),
    ("fencing", "say-once", [*RUNNING, fencing(OLD)], fencing(OLD)),
    ("fenced", "complete", RUNNING, record("fenced", reason="dead", evidence="seen")),
    ("fenced", "known-driver", RUNNING, fenced(NO_DRIVER)),
    ("fenced", "fence-once", [*RUNNING, fenced(OLD)], fenced(OLD)),
    ("fenced", "fence-once", [*RUNNING, failed(OLD)], fenced(OLD)),
    ("fenced", "say-why", RUNNING, fenced(OLD, reason="")),
    ("fenced", "say-why", RUNNING, fenced(OLD, evidence="")),
    ("aborted", "complete", READY, record("aborted", request="up")),
    ("aborted", "abort-open", HANDED_OVER, aborted("up", at=200)),
    ("aborted", "abort-open", READY, aborted("other", at=200)),
    ("aborted", "abort-in-time", READY, aborted("up")),
    ("aborted", "abort-in-time", READY, aborted("up", name=NEW)),
    ("aborted", "abort-in-time", RELEASED, aborted("up", at=200)),
    ("aborted", "abort-in-time", RELEASED, aborted("up", by="airflow", at=200)),
    ("aborted", "abort-in-time", [*RELEASED, fenced(NEW)], aborted("up", at=200)),
    ("failed", "complete", RUNNING, record("failed", deployment=OLD_DEPLOYMENT)),
    ("failed", "intent-first", RUNNING, failed(None, OTHER)),
    ("failed", "fail-once", [*RUNNING, failed(OLD)], failed(OLD)),
    ("failed", "sound-id", PREPARED, failed(NEW, OLD_DEPLOYMENT)),
    ("failed", "boundary-known", RUNNING, failed(OLD, boundary="somehow")),
    ("failed", "alive-or-absent", PREPARED, failed(None, NEW_DEPLOYMENT)),
    ("failed", "alive-or-absent", [*PREPARED, fenced(NEW)], failed(NEW)),
    ("finished", "complete", RUNNING, record("finished")),
    ("finished", "only-the-holder", PREPARED, finished(NEW)),
    ("retired", "complete", RUNNING, record("retired")),
    ("retired", "intent-first", RUNNING, retired(OTHER)),
    ("retired", "retire-once", [*HANDED_OVER, retired(OLD_DEPLOYMENT)], retired(OLD_DEPLOYMENT)),
    ("retired", "not-the-holder", RUNNING, retired(OLD_DEPLOYMENT)),
    ("retired", "not-in-hand-over", READY, retired(NEW_DEPLOYMENT)),
    ("retired", "not-in-hand-over", RELEASED, retired(OLD_DEPLOYMENT)),
]  # fmt: skip


@pytest.mark.parametrize(("before", "new"), [case[1:] for case in LEGAL], ids=[case[0] for case in LEGAL])
def test_what_is_legal_passes(before: list[Record], new: Record) -> None:
    check(play(before), new)


@pytest.mark.parametrize(
    ("kind", "rule", "before", "new"), REFUSED, ids=[f"{kind}-{rule}-{n}" for n, (kind, rule, *_) in enumerate(REFUSED)]
)
def test_what_breaks_a_rule_is_refused_by_its_name(kind: str, rule: str, before: list[Record], new: Record) -> None:
    state = play(before)
    assert new.kind == kind
    with pytest.raises(RuleBroken) as refusal:
        check(state, new)
    assert refusal.value.fields["rule"] == rule
    assert f"{kind!r} refused by rule {rule!r}" in str(refusal.value)
    assert refusal.value.next_step


def test_every_rule_of_the_table_was_broken_above() -> None:
    written = {(kind, rule.name) for kind, rules in RULES.items() for rule in rules}
    assert written == {(kind, rule) for kind, rule, *_ in REFUSED}


def test_every_kind_has_rules_and_a_legal_case() -> None:
    kinds = {value for name, value in vars(Kind).items() if name.isupper()}
    assert kinds == set(RULES)
    assert kinds - {Kind.UNREADABLE} <= {new.kind for _, _, new in LEGAL}

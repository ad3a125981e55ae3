"""What each verb asks for, by how the stream stands: a wish, nothing, as it is so already, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.steps import GiveUp, Want
from airflow_stream_provider.planning.verbs import Answer
from tests.support.snapshots import ASKED, BOTH, ME, RUNNING, STOPPED, UPGRADED, WISHED, brief, scene, snapshot, up
from tests.support.story import (
    FOLLOWING,
    JOB_ENDING,
    JOB_GONE,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    aborted,
    acquired,
    declared,
    failed,
    fenced,
    finished,
    hash_of,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    wanted,
)

SEEN = "The query lines writes commits/ in format v2 instead of v1."
READY = [*ASKED, ready("mine", NEW)]
GATED = [*RUNNING, wanted("new", "stand_by", approval=True), *up(NEW, "new")]
COMING = [*RUNNING, wanted("new", "stand_by"), declared(NEW_DEPLOYMENT, "new")]
KILLED = [*RUNNING, fenced(OLD)]
BACK_AGAIN = [*UPGRADED, wanted("back", family="old", back=True)]
ROLLED_BACK = [*BACK_AGAIN, requested("b", OLD, wish="back"), ready("b", OLD), released(NEW, "b", OLD),
               acquired(OLD, "b", 3)]  # fmt: skip
# Release 2 holds, and was restarted since: a family of its own, of the same release.
SECOND = {"version": "2", "hash": hash_of("second")}
AGAIN = "orders-2-cccc.00000004"
RESTARTED = [
    *(replace(r, fields={**r.fields, "release": SECOND})
      if r.get("release") and "new" in (r.get("family"), r.get("wish")) else r for r in UPGRADED),
    *(wanted("again", alone=True, release=SECOND), requested("s", None, wish="again"), released(NEW, "s", None)),
    *(retired(OLD_DEPLOYMENT), retired(NEW_DEPLOYMENT), declared(deployment_of(AGAIN), "again", release=SECOND)),
    *(standby(AGAIN), requested("r", AGAIN, wish="again"), ready("r", AGAIN), acquired(AGAIN, "r", 3)),
]  # fmt: skip
STOPPING = [*RUNNING, wanted("rest", "stop"), requested("s", None, wish="rest")]
RESTARTS = [*RUNNING, wanted("go", alone=True), requested("s", None, wish="go"), released(OLD, "s", None),
            declared(NEW_DEPLOYMENT, "go")]  # fmt: skip
ENDED = [*STOPPED, retired(OLD_DEPLOYMENT)]
LEFT = [*ENDED, wanted("off", "leave")]
DOUBT = [*JOB_GONE, aborted("adopt", at=400.0)]
# NEW never commits, so that OLD runs in its place.
INSTEAD = [*UPGRADED, failed(NEW, committed=False), requested("i", OLD, wish="take"), ready("i", OLD),
           acquired(OLD, "i", 3)]  # fmt: skip
MINE = "airflow:dag/run/submit"
UNDONE = [*RUNNING, wanted("new", "stand_by", by=MINE), *up(NEW, "new")]
TOOK = [*UNDONE, wanted("take", family="new", approved="x", by=MINE), requested("t", NEW, wish="take"),
        ready("t", NEW), released(OLD, "t", NEW), acquired(NEW, "t", 2)]  # fmt: skip


def start(found: Scene) -> Answer:
    return verbs.start(found, "1", "why")


def restart(found: Scene) -> Answer:
    return verbs.start(found, "1", "why", anew=True)


def stop(found: Scene) -> Answer:
    return verbs.stop(found, "why")


def retire(found: Scene) -> Answer:
    return verbs.stop(found, "why", for_good=True)


def stand_by(found: Scene) -> Answer:
    return verbs.stand_by(found, "why", 99.0)


def hand_over(found: Scene) -> Answer:
    return verbs.hand_over(found, "new", "why", "it passed")


def promote(found: Scene) -> Answer:
    return verbs.promote(found, "why")


def abort(found: Scene) -> Answer:
    return verbs.withdraw(found, "", "why")


def roll_back(found: Scene) -> Answer:
    return verbs.roll_back(found, "why")


def undo(found: Scene) -> Answer:
    return verbs.undo(found, "it is slow", "why")


def adopt(found: Scene) -> Answer:
    return verbs.adopt(found, "why", job="driver-1")


# What is refused or skipped names what the sentence says.
Row = tuple[Callable[[Scene], Answer], str, list[Record], str]
TABLE: list[Row] = [
    (start, "what never ran", [], "want hold new"),
    (start, "what was stopped", ENDED, "want hold new"),
    (start, "what was left", LEFT, "want hold new"),
    (start, "what has finished", [*RUNNING, finished(OLD)], "want hold new"),
    (start, "what is down", KILLED, "want hold new"),
    (start, "what runs", RUNNING, "skip: Release 1 runs already."),
    (start, "what is about to stop", STOPPING, "want hold old"),
    (start, "what is to be upgraded", WISHED, "want hold old"),
    (start, "what follows a job", FOLLOWING, "refused: is to follow a job that may write its checkpoints still."),
    (start, "what followed one that is gone", DOUBT, "want hold new"),
    (restart, "what runs", RUNNING, "want hold new alone"),
    (restart, "what is about to stop", STOPPING, "want hold new alone"),
    (restart, "what is down", KILLED, "want hold new"),
    (stop, "what runs", RUNNING, "want stop"),
    (stop, "what is being handed over", ASKED, "want stop"),
    (stop, "what is down", KILLED, "want stop"),
    (stop, "what has finished", [*RUNNING, finished(OLD), retired(NEW_DEPLOYMENT)][:-1], "want stop"),
    (stop, "what comes up", [wanted("go")], "want stop"),
    (stop, "what was stopped", ENDED, "skip: It was stopped by airflow (a person wants it), and no driver is left"),
    (stop, "what was left", LEFT, "skip: It was stopped by airflow"),
    (stop, "what does not stop", [*STOPPING, aborted("s", name=OLD)], "want stop"),
    (stop, "what leaves a driver", STOPPED, "want stop"),
    (stop, "what is to stand by", [*ENDED, wanted("new", "stand_by")], "want stop"),
    (stop, "what never ran", [], "refused: there is nothing to stop. Start it."),
    (stop, "a job that is followed", JOB_ENDING, "want stop"),
    (retire, "what runs", RUNNING, "want leave"),
    (retire, "what was stopped", ENDED, "want leave"),
    (retire, "what was left", LEFT, "skip: It was stopped by airflow"),
    (stand_by, "beside a holder", RUNNING, "want stand_by new"),
    (stand_by, "on what was stopped before", ENDED, "refused: was stopped by airflow (a person wants it) since"),
    (stand_by, "on what rests for long", [wanted("rest", "stop", at=99.0)], "want stand_by new"),
    (stand_by, "on what this run has stopped", [wanted("rest", "stop", by=MINE)], "want stand_by new"),
    (stand_by, "on what somebody has started since", [*ENDED, wanted("go")], "want stand_by new"),
    (stand_by, "beside a job that is followed", JOB_ENDING, "refused: is to follow a job"),
    (hand_over, "to the candidate", BOTH, "want hold new"),
    (hand_over, "once more", [*ASKED, aborted("mine", name=OLD)], "want hold new"),
    (hand_over, "to one that another has replaced", [*BOTH, wanted("third", "stand_by", by="person:anna")],
     "refused: was replaced by record 12, by person:anna (a person wants it). old (release 1) holds"),
    (hand_over, "to one that was rolled back", ROLLED_BACK, "refused: was replaced by record 17, by airflow"),
    (promote, "a candidate", BOTH, "want hold new"),
    (promote, "one that was asked in vain", [*ASKED, aborted("mine", name=OLD)], "want hold new"),
    (promote, "one that waits for approval, which its gate refuses", GATED, "want hold new"),
    (roll_back, "what ran before the release that was restarted since", RESTARTED, "want hold old back"),
    (promote, "one that comes up", COMING, "refused: new comes up, and has not rehearsed yet."),
    (promote, "one that has failed", [*BOTH, failed(NEW)], "skip: No new release stands by. old (release 1) holds"),
    (promote, "what holds", UPGRADED, "skip: No new release stands by. new (release 1) holds"),
    (promote, "what was rolled back", ROLLED_BACK, "skip: No new release stands by."),
    (promote, "the follower of a job", JOB_ENDING, "skip: No new release stands by."),
    (abort, "a candidate", BOTH, "want hold old"),
    (abort, "a hand-over", READY, "want hold old"),
    (abort, "one on what was stopped", [*ENDED, wanted("new", "stand_by")], "want stop"),
    (abort, "one on what was left", [*LEFT, wanted("new", "stand_by")], "want leave"),
    (abort, "the first of all", [wanted("new", "stand_by")], "want stop"),
    (abort, "a start", [wanted("go")], "want stop"),
    (abort, "a start of what was stopped", [*ENDED, wanted("go")], "want stop"),
    (abort, "one beside a restart", [*RUNNING, wanted("go", alone=True), wanted("new", "stand_by")],
     "want hold go alone"),
    (abort, "one beside a restart that comes up", [*RESTARTS, wanted("new", "stand_by")], "want hold go"),
    (abort, "one beside a roll-back", [*BACK_AGAIN, wanted("third", "stand_by")], "want hold old back"),
    (abort, "what has taken over", UPGRADED, "skip: No new release comes up or stands by."),
    (abort, "what is down", [*UPGRADED, fenced(NEW)], "refused: new runs again what held last, as nobody holds."),
    (abort, "nothing", [], "skip: No new release comes up or stands by."),
    (abort, "what rests", ENDED, "skip: No new release comes up or stands by."),
    (roll_back, "what was upgraded", UPGRADED, "want hold old back"),
    (roll_back, "and is down", [*UPGRADED, failed(NEW)], "want hold old back"),
    (roll_back, "which runs in its place", INSTEAD, "want hold old back"),
    (roll_back, "a roll-back that was given up", BACK_AGAIN, "want hold old back"),
    (roll_back, "what was rolled back", ROLLED_BACK, "skip: It is rolled back already, by airflow"),
    (roll_back, "the first of all", RUNNING, "refused: No release is known that held before old."),
    (roll_back, "what was stopped", ENDED, "refused: Start it with the release that you want"),
    (roll_back, "what has finished", [*UPGRADED, finished(NEW)], "refused: Start it with the release that you want"),
    (roll_back, "what never ran", [], "refused: Start it with the release that you want"),
    (roll_back, "what was never taken from it", [*UPGRADED, wanted("it", family="new", back=True)],
     "want hold old back"),
    (roll_back, "what is about to stop", [*UPGRADED, wanted("rest", "stop")], "want hold old back"),
    (roll_back, "what was stopped inside a hand-over", [*READY, released(OLD, "mine", NEW), wanted("rest", "stop")],
     "refused: Start it with the release that you want"),
    (undo, "what this run has put in charge", TOOK, "want hold old back"),
    (undo, "what has died since", [*TOOK, fenced(NEW)], "want hold old back"),
    (undo, "what waits to take over", TOOK[:-4], "want hold old back"),
    (undo, "what somebody has wished anew since", [*TOOK, wanted("more", family="new")], "want hold old back"),
    (undo, "a candidate", UNDONE, "want hold old"),
    (undo, "what has stopped for it", [*RUNNING, wanted("go", alone=True, by=MINE), failed(OLD)],
     "want hold old back"),
    (undo, "what a person has stopped since", [*TOOK, wanted("rest", "stop", by="person:anna")],
     "skip: was replaced by record 17, by person:anna"),
    (undo, "what another has replaced since", [*TOOK, wanted("go", by="person:anna")],
     "skip: was replaced by record 17, by person:anna"),
    (undo, "the first of all", [wanted("new", by=MINE), *up(NEW, "new")], "want stop"),
    (undo, "what another run did", UPGRADED, "skip: This run has wished nothing."),
    (adopt, "what never ran", [], "want hold new adopts"),
    (adopt, "what was stopped", ENDED, "want hold new adopts"),
    (adopt, "with a follower that stands by", FOLLOWING, "want hold adopt"),
    (adopt, "of another wish", [*FOLLOWING, wanted("go")], "want hold adopt"),
    (adopt, "with one that has failed", [*FOLLOWING, failed(OLD)], "want hold new adopts"),
    (adopt, "once more, as somebody else wrote", DOUBT, "want hold adopt"),
    (adopt, "what runs", RUNNING, "refused: Somebody has started the stream."),
    (adopt, "what is down", KILLED, "refused: A stream that was running, or is about to, adopts no job."),
    (adopt, "what was started", [wanted("go")], "refused: A stream that was running, or is about to, adopts no job."),
]  # fmt: skip


def said(answer: Answer) -> str:
    if isinstance(answer, Want):
        return brief(answer)
    text = f"refused: {answer.error}" if isinstance(answer, GiveUp) else f"skip: {answer.reason}"
    return text.replace(OLD_DEPLOYMENT, "old").replace(NEW_DEPLOYMENT, "new")


@pytest.mark.parametrize(
    ("verb", "records", "answer"), [(r[0], *r[2:]) for r in TABLE], ids=[f"{r[0].__name__} {r[1]}" for r in TABLE]
)
def test_what_a_verb_asks_for(verb: Callable[[Scene], Answer], records: list[Record], answer: str) -> None:
    found = said(verb(scene(*records)))
    kind, _, rest = answer.partition(": ")
    assert found == answer if not rest else (found.startswith(kind) and rest in found)


@pytest.mark.parametrize("row", [r for r in TABLE if r[3].startswith("want")], ids=lambda r: f"{r[0].__name__} {r[1]}")
def test_each_wish_may_be_written(row: Row) -> None:
    """A wish with a release is completed by the operator, which publishes it."""
    verb, _, records, _ = row
    step = verb(scene(*records))
    assert isinstance(step, Want)
    release = {"release": {"version": "1", "hash": hash_of("the YAML")}, "policy": {"adopts": "adopts" in step.fields}}
    fields = {**step.fields, **(release if step.publish else {})}
    assert fields["wish"] == ME.wish
    snapshot(*records, record("wanted", **fields))


def test_another_version_is_not_started_in_place_of_what_runs() -> None:
    for anew in (False, True):
        refused = said(verbs.start(scene(*RUNNING), "2", "why", anew=anew))
        assert "Release 2 was asked for, and that is an upgrade. Upgrade the stream to it" in refused


def test_a_stop_since_it_was_asked_for_counts() -> None:
    for anew in (False, True):
        late = said(verbs.start(scene(*ENDED), "1", "why", anew=anew, since=99.0))
        assert late.startswith("refused: The stream was stopped by airflow (a person wants it) since this was asked")
        assert isinstance(verbs.start(scene(*ENDED), "1", "why", anew=anew, since=100.0), Want)


def test_a_roll_back_goes_where_it_was_foreseen_or_nowhere() -> None:
    assert isinstance(verbs.roll_back(scene(*UPGRADED), "why", "old"), Want)
    assert isinstance(verbs.roll_back(scene(*WISHED), "why", "old"), Want), "it stays, while another one is to hold"
    text = said(verbs.roll_back(scene(*UPGRADED), "why", "older"))
    assert text.startswith("refused: The stream would go back to release 1 (old) now, and release older was foreseen.")
    assert "already" in said(verbs.roll_back(scene(*ROLLED_BACK), "why", "old"))


def test_a_release_without_a_fault_stays() -> None:
    found = said(verbs.undo(scene(*TOOK), "", "why"))
    assert "No fault of new was found" in found
    assert "Clear the task that failed" in found
    for records in ([*TOOK, fenced(NEW)], UNDONE, TOOK[:-4]):
        assert isinstance(verbs.undo(scene(*records), "", "why"), Want), "it does not hold"
    assert isinstance(verbs.undo(scene(*TOOK), None, "why"), Want), "whether there is one is not known"


def test_nothing_goes_back_to_a_release_that_cannot_read_the_checkpoint() -> None:
    found = scene(*TOOK)
    beats = {NEW: Heartbeat(rehearsal={"one_way": [SEEN]})}
    found = replace(found, snapshot=replace(found.snapshot, heartbeats=beats))
    for verb in (roll_back, undo):
        text = said(verb(found))
        assert text.startswith(f"refused: There is no way back from release 1 (new): {SEEN}")
        assert "new (release 1) holds the stream" in text
        assert "its rehearsal says whether it can read the checkpoint" in text


def test_what_was_approved_stays_so_when_it_is_promoted_or_kept() -> None:
    asked = [*GATED, wanted("take", family="new", approved="Ann")]
    for family in ("", "new"):  # as by hand, and as the operator does what was foreseen
        step = verbs.promote(scene(*asked), "why", family)
        assert isinstance(step, Want)
        assert step.fields["approved"] == "Ann"
    assert isinstance(verbs.promote(scene(*asked), "why", "old"), GiveUp)
    by_bob = verbs.promote(scene(*GATED), "why", "new", "Bob")
    assert isinstance(by_bob, Want)
    assert by_bob.fields["approved"] == "Bob", "as its operator is told"
    kept = verbs.withdraw(scene(*asked, wanted("third", "stand_by")), "", "why")
    assert isinstance(kept, Want)
    assert (kept.fields["family"], kept.fields["approved"]) == ("new", "Ann")


def test_to_call_something_off_does_not_try_anew_what_never_commits() -> None:
    step = verbs.withdraw(scene(*INSTEAD, wanted("third", "stand_by")), "", "why")
    assert isinstance(step, Want)
    assert step.fields["family"] == "old"


def test_the_wish_is_the_tasks_own_and_says_why() -> None:
    step = verbs.stand_by(scene(*RUNNING), "why", 99.0, approval=True, redeployed=False)
    fields = {"wish": ME.wish, "goal": "stand_by", "reason": "why", "approval": True}
    assert step == Want(fields, publish=True)
    adopts = verbs.adopt(scene(), "why", confirmed_by="Ada")
    assert isinstance(adopts, Want)
    assert (adopts.fields["confirmed_by"], "job" in adopts.fields) == ("Ada", False)


def test_who_replaced_a_wish_is_said_as_far_as_it_is_known() -> None:
    wish = scene(*BOTH).state.wishes["new"]
    assert "was replaced long ago" in str(verbs.replaced(scene().snapshot, None))
    for records, by in (
        ([*BOTH, wanted("third", "stand_by", by="x")], "record 12, by x"),
        ([*BOTH, wanted("rest", "stop", by="y")], "record 12, by y"),
    ):
        error = verbs.replaced(scene(*records).snapshot, wish)
        assert by in str(error)
        assert error.fields["by"] == by[-1]

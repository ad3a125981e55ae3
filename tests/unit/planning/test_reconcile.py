"""What comes next for a stream, whoever looks: a state of the log on the left, the next step on the right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import RequestOver
from airflow_stream_provider.planning.reconcile import COME_UP_SECONDS, reconcile
from airflow_stream_provider.planning.signs_of_life import Dead, SignsOfLife
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Append, Declare, Done, GiveUp, Kill, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import (
    ASKED,
    BOTH,
    RELEASED,
    RUNNING,
    STOPPED,
    UPGRADED,
    WISHED,
    brief,
    given_up,
    scene,
    seen_by,
    up,
)
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    TWIN,
    aborted,
    acquired,
    declared,
    failed,
    fenced,
    fencing,
    finished,
    hash_of,
    ready,
    released,
    requested,
    retired,
    standby,
    submitted,
    wanted,
)

READY = [*ASKED, ready("mine", NEW)]
TORN = [*READY, released(OLD, "mine", NEW, "interrupted")]
MISSED = aborted("mine", name=OLD)
BACK = [*UPGRADED, wanted("back", family="old", back=True)]
RESTART = [*RUNNING, wanted("again", alone=True)]
REST = [*RUNNING, wanted("rest", "stop")]
TERMINATED = [*RUNNING, released(OLD, None, None)]
KILLED = [*RUNNING, fenced(OLD), failed(None, OLD_DEPLOYMENT)]
GATED = [*RUNNING, wanted("new", "stand_by", approval=True), *up(NEW, "new"), wanted("take", family="new")]
THIRD = wanted("third", "stand_by")
BEAT = {OLD: True, NEW: True}
OTHER = f"{OLD_DEPLOYMENT}.00000003"
OLD_DEAD, NEW_DEAD = {OLD: False, NEW: True}, {OLD: True, NEW: False}


def asked_in_vain(
    times: int, wish: str = "take", to: str | None = NEW, holder: str | None = OLD, *, answered: bool = False
) -> list[Record]:
    story: list[Record] = []
    for number in range(times):
        said = [ready(f"q{number}", to)] if answered and to is not None else []
        end = aborted(f"q{number}", name=holder, at=100.0 if holder else 200.0)
        story += [requested(f"q{number}", to, wish=wish), *said, end]
    return story


def comes_up(name: str, family: str, of: str, at: float = 100.0) -> Record:
    return declared(name, family, again=of, release={"version": "1", "hash": hash_of(of)}, at=at)


Row = tuple[str, list[Record], dict[str, bool], float, str]

SAFETY: list[Row] = [
    ("nobody has wished anything", [], {}, 110, "done"),
    ("the holder beats", RUNNING, BEAT, 110, "done"),
    ("nobody knows how the holder is", RUNNING, {}, 110, "wait SignsOfLife"),
    ("the holder is dead", RUNNING, OLD_DEAD, 110, "fencing OLD"),
    ("its kill is declared", [*RUNNING, fencing(OLD)], OLD_DEAD, 110, "kill Dead"),
    ("a dead standby that nobody needs", BOTH, NEW_DEAD, 110, "done"),
    ("a hand-over goes on", ASKED, BEAT, 110, "wait RequestOver"),
    ("an answered one goes on", READY, BEAT, 110, "wait RequestOver"),
    ("it has expired", ASKED, BEAT, 200, "aborted mine"),
    ("answered, it has expired", READY, BEAT, 200, "aborted mine"),
    ("the appointed one is dead", READY, NEW_DEAD, 110, "fencing NEW"),
    ("the appointed one has failed", [*READY, failed(NEW)], BEAT, 110, "aborted mine"),
    ("the holder dies in a hand-over", READY, OLD_DEAD, 110, "fencing OLD"),
    ("then the appointed one goes on", [*READY, fenced(OLD)], BEAT, 110, "wait RequestOver"),
    ("released, the drivers go on by themselves", RELEASED, BEAT, 900, "wait RequestOver"),
    ("released, the releaser is not needed", RELEASED, OLD_DEAD, 900, "wait RequestOver"),
    ("released, the appointed one is dead", RELEASED, NEW_DEAD, 110, "fencing NEW"),
    ("then the releaser takes back", [*RELEASED, fenced(NEW)], BEAT, 900, "wait RequestOver"),
    ("the releaser is dead, too", [*RELEASED, fenced(NEW)], {OLD: False}, 110, "fencing OLD"),
    ("nobody is left", [*RELEASED, fenced(NEW), fenced(OLD)], {}, 110, "aborted mine"),
    ("released inside a batch", TORN, BEAT, 110, "fencing OLD"),
    ("that comes before a stop", [*TORN, wanted("rest", "stop")], BEAT, 110, "fencing OLD"),
    ("failed inside a batch", [*RUNNING, failed(OLD, boundary="interrupted")], BEAT, 110, "fencing OLD"),
    ("another wish has replaced its own", [*ASKED, wanted("rest", "stop")], BEAT, 110, "aborted mine"),
    ("replaced and answered", [*READY, wanted("back", family="old")], BEAT, 110, "aborted mine"),
    ("replaced after the release", [*RELEASED, wanted("rest", "stop")], BEAT, 110, "wait RequestOver"),
    ("a candidate replaces nothing", [*ASKED, THIRD], BEAT, 110, "wait RequestOver"),
]

HOLDER: list[Row] = [
    ("the wish is so", UPGRADED, BEAT, 110, "done"),
    ("a release is to take over", WISHED, BEAT, 110, "requested NEW"),
    ("its standby is dead", WISHED, NEW_DEAD, 110, "fencing NEW"),
    ("it was lost", [*WISHED, fenced(NEW)], BEAT, 110, "failed new"),
    ("then another one comes", [*WISHED, fenced(NEW), failed(None, NEW_DEPLOYMENT)], BEAT, 110, "declare new"),
    ("it says why it failed", [*WISHED, failed(NEW)], BEAT, 110, "giveup"),
    ("it was called off", [*WISHED, retired(NEW_DEPLOYMENT)], BEAT, 110, "giveup"),
    ("asked in vain once", [*WISHED, *asked_in_vain(1)], BEAT, 110, "requested NEW"),
    ("three times", [*WISHED, *asked_in_vain(3)], BEAT, 110, "giveup"),
    ("and somebody wishes it anew",
     [*WISHED, *asked_in_vain(3), wanted("more", family="new", approved="Ann")], BEAT, 110, "requested NEW"),
    ("given up, and the holder is dead", [*WISHED, *asked_in_vain(3)], OLD_DEAD, 110, "fencing OLD"),
    ("taken back", [*RELEASED, acquired(OLD, "mine", 2)], BEAT, 110, "requested NEW"),
    ("not approved", GATED, BEAT, 110, "giveup"),
    ("a roll-back to a warm one", BACK, BEAT, 110, "requested OLD"),
    ("it was missed", [*BACK, *asked_in_vain(1, "back", OLD, NEW, answered=True)], BEAT, 110, "fencing NEW"),
    ("the warm one did not answer, so the holder was not asked to stop",
     [*BACK, *asked_in_vain(1, "back", OLD, NEW)], BEAT, 110, "requested OLD"),
    ("nor did it later", [*BACK, *asked_in_vain(3, "back", OLD, NEW)], BEAT, 110, "giveup"),
    ("then the warm one is appointed", [*BACK, fenced(NEW)], BEAT, 110, "requested OLD"),
    ("no warm one is left", [*BACK, retired(OLD_DEPLOYMENT)], BEAT, 110, "giveup"),
    ("none was left before", [*UPGRADED, retired(OLD_DEPLOYMENT), BACK[-1]], BEAT, 110, "declare old"),
    ("a restart stops the holder first", RESTART, BEAT, 110, "requested None"),
    ("which is under way", [*RESTART, requested("s", None, wish="again")], BEAT, 110, "wait RequestOver"),
    ("it missed its boundary", [*RESTART, *asked_in_vain(1, "again", None)], BEAT, 110, "giveup"),
    ("a stop asks the holder", REST, BEAT, 110, "requested None"),
    ("one to leave, too", [*RUNNING, wanted("off", "leave")], BEAT, 110, "requested None"),
    ("it missed its boundary, too", [*REST, *asked_in_vain(1, "rest", None)], BEAT, 110, "giveup"),
    ("and died", [*REST, *asked_in_vain(1, "rest", None), fenced(OLD)], BEAT, 110, "retired old"),
    ("another holds since", [*REST, *asked_in_vain(1, "rest", None), wanted("go"), wanted("s", "stop")],
     BEAT, 110, "requested None"),
    ("then every driver is ended", STOPPED, BEAT, 110, "retired old"),
    ("but for what was asked for since", [*STOPPED, retired(OLD_DEPLOYMENT), THIRD], {}, 110, "wait DriversGone"),
    ("which comes up", [*STOPPED[:-1], failed(OLD), THIRD], {}, 110, "declare third"),
]  # fmt: skip

NOBODY: list[Row] = [
    ("to start", [wanted("go")], {}, 110, "declare go"),
    ("declared by another, who submits it", [wanted("go"), declared("o-1", "go")], {}, 110, "wait Pause"),
    ("who is dead", [wanted("go"), declared("o-1", "go")], {}, 200, "submit o-1"),
    ("submitted", [wanted("go"), declared("o-1", "go"), submitted("o-1")], {}, 110, "wait StandbyUp"),
    ("up", [wanted("go"), *up(OLD, "go")], BEAT, 110, "requested OLD"),
    ("up, how it is is not known", [wanted("go"), *up(OLD, "go")], {}, 110, "wait SignsOfLife"),
    ("asked in vain", [*WISHED, fenced(OLD), *asked_in_vain(2, holder=None)], BEAT, 210, "requested NEW"),
    ("asked in vain again and again, it makes room for what may",
     [*WISHED, fenced(OLD), *asked_in_vain(3, holder=None)], BEAT, 210, "fencing NEW"),
    ("SIGTERM, and still there", TERMINATED, BEAT, 110, "requested OLD"),
    ("SIGTERM, how it is is not known", TERMINATED, {}, 110, "wait SignsOfLife"),
    ("SIGTERM, and gone", TERMINATED, {OLD: False}, 110, "declare old"),
    ("dead, and its cluster may start it again", [*RUNNING, fenced(OLD)], {}, 110, "wait StandbyUp"),
    ("and does not", [*RUNNING, fenced(OLD)], {OLD_DEPLOYMENT: False}, 110, "failed old"),
    ("its release is run again", KILLED, {}, 110, "declare old"),
    ("which comes up", [*KILLED, comes_up("o-3", "old", OLD_DEPLOYMENT), submitted("o-3")], {}, 300, "wait StandbyUp"),
    ("dead, its twin is warm", [*UPGRADED, standby(TWIN), fenced(NEW)], {TWIN: True}, 110, "requested new.00000003"),
    ("failed, and what ran before is warm", [*UPGRADED, failed(NEW)], BEAT, 110, "declare new"),
    ("it is late", [*UPGRADED, failed(NEW), comes_up("o-3", "new", NEW_DEPLOYMENT), submitted("o-3")],
     BEAT, 101 + COME_UP_SECONDS, "requested OLD"),
    ("it is late, and what is warm cannot read what was written since",
     [*seen_by(NEW, UPGRADED), failed(NEW), comes_up("o-3", "new", NEW_DEPLOYMENT), submitted("o-3")],
     BEAT, 101 + COME_UP_SECONDS, "wait StandbyUp"),
    ("it never commits, and what ran before runs", [*UPGRADED, failed(NEW, committed=False)], BEAT, 110,
     "requested OLD"),
    ("it never commits, and what ran before cannot read it",
     [*seen_by(NEW, UPGRADED), failed(NEW, committed=False)], BEAT, 110, "declare new"),
    ("it is late, and nobody is warm", [*UPGRADED, failed(NEW), comes_up("o-3", "new", NEW_DEPLOYMENT),
     submitted("o-3")], {OLD: False}, 101 + COME_UP_SECONDS, "wait StandbyUp"),
    ("one that never held does not stand in", [*BOTH, fenced(OLD), failed(None, OLD_DEPLOYMENT)],
     BEAT, 110, "declare old"),
    ("one that was called off is started again", [*KILLED[:-1], retired(OLD_DEPLOYMENT)], {}, 110, "declare old"),
    ("finished by itself", [*RUNNING, finished(OLD)], {}, 110, "done"),
    ("unless another is to hold", [*WISHED, finished(OLD)], BEAT, 110, "requested NEW"),
    ("a roll-back does not go forth", [*BACK, fenced(NEW), fenced(OLD), failed(None, OLD_DEPLOYMENT)],
     {}, 110, "declare old"),
    ("a restart makes room first", [*RESTART, requested("s", None, wish="again"), released(OLD, "s", None)],
     BEAT, 110, "retired old"),
    ("waits for that", [*RESTART, requested("s", None, wish="again"), released(OLD, "s", None),
     retired(OLD_DEPLOYMENT)], {}, 110, "wait DriversGone"),
    ("and starts", [*RESTART, failed(OLD)], {}, 110, "declare again"),
    ("what was called off before it held makes room", [*RESTART, requested("s", None, wish="again"),
     released(OLD, "s", None), retired(OLD_DEPLOYMENT), *up(NEW, "again"), wanted("no", family="old")],
     {NEW: True, OLD_DEPLOYMENT: False}, 110, "retired new"),
    ("what a revival brings up makes room for a start",
     [*KILLED, comes_up("o-3", "old", OLD_DEPLOYMENT), submitted("o-3"), wanted("go")], {}, 110, "retired o-3"),
    ("a pause is not spent on a candidate", [*RUNNING, failed(OLD), comes_up("o-3", "old", OLD_DEPLOYMENT),
     failed(None, "o-3"), wanted("new", "stand_by"), declared(NEW_DEPLOYMENT, "new"), submitted(NEW_DEPLOYMENT)],
     {}, 130, "later o-3"),
    ("what may hold in its place makes none",
     [*RUNNING, standby(OTHER), wanted("again", alone=True, approval=True), fenced(OLD)], {OTHER: True}, 110,
     "requested old.00000003"),
    ("what waits for approval leaves the stream to what ran", [*GATED, failed(OLD)], BEAT, 110, "declare old"),
    ("and to a warm driver of it", [*GATED, released(OLD, None, None)], BEAT, 110, "requested OLD"),
    ("nothing ran before it", [wanted("go", approval=True)], {}, 110, "giveup"),
]  # fmt: skip

CANDIDATE: list[Row] = [
    ("a candidate comes up", [*RUNNING, THIRD], BEAT, 110, "declare third"),
    ("what is warm makes room", [*UPGRADED, THIRD], BEAT, 110, "retired old"),
    ("and is waited for", [*UPGRADED, THIRD, retired(OLD_DEPLOYMENT)], BEAT, 110, "wait DriversGone"),
    ("so does the candidate before", [*BOTH, THIRD], BEAT, 110, "retired new"),
    ("it stands by", BOTH, BEAT, 110, "done"),
    ("it has failed", [*BOTH, failed(NEW)], BEAT, 110, "done"),
    ("the holder comes first", [*RUNNING, THIRD], OLD_DEAD, 110, "fencing OLD"),
    ("what brings the stream back makes no room",
     [*KILLED, comes_up("o-3", "old", OLD_DEPLOYMENT), submitted("o-3"), THIRD], {}, 110, "wait StandbyUp"),
    ("called off", [*BOTH, wanted("no", family="old")], BEAT, 110, "retired new"),
    ("with no holder it stays", [*BOTH, wanted("no", family="old"), fenced(OLD)], BEAT, 110, "wait StandbyUp"),
    ("what has held is kept warm", UPGRADED, BEAT, 110, "done"),
    ("a second driver that came too late",
     [*RUNNING, fenced(OLD), comes_up("o-3", "old", OLD_DEPLOYMENT), standby("o-3.00000003"), *up(TWIN, "old"),
      requested("r", TWIN, wish="old"), ready("r", TWIN), acquired(TWIN, "r", 2)], {TWIN: True}, 110, "retired o-3"),
]  # fmt: skip

TABLE = [*SAFETY, *HOLDER, *NOBODY, *CANDIDATE]


@pytest.mark.parametrize(("records", "lives", "at", "step"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_next_step(records: list[Record], lives: dict[str, bool], at: float, step: str) -> None:
    assert brief(reconcile(scene(*records, at=at, lives=lives))) == step


def test_every_step_is_for_a_task_too() -> None:
    """The step for one wish is that for all, but for what a candidate and what is spare need."""
    for _, records, lives, at, step in (*SAFETY, *HOLDER, *NOBODY):
        found = scene(*records, at=at, lives=lives)
        alone = brief(reconcile(found, found.state.wish)) if found.state.wish else "done"
        assert alone == step or (found.state.candidate and alone == "done")


def test_the_task_of_a_candidate_leaves_the_holder_to_others() -> None:
    found = scene(*RUNNING, THIRD, lives=OLD_DEAD)
    assert brief(reconcile(found, found.state.candidate)) == "declare third"
    refused = scene(*BOTH, failed(NEW), lives=BEAT)
    assert "it broke: Boom" in given_up(reconcile(refused, refused.state.candidate))


def test_a_silent_holder_is_killed_confirmed_and_fenced_and_the_request_goes_on() -> None:
    silent = WaitOutcome(Ended.SILENT, OLD, "no heartbeat for 70 s")
    assert reconcile(scene(*ASKED, fencing(OLD), outcome=silent)) == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    dead = WaitOutcome(Ended.DEAD, OLD, "gone", {"driver": "killed"})
    step = reconcile(scene(*ASKED, fencing(OLD), outcome=dead))
    assert isinstance(step, Append)
    assert (step.kind, step.fields["evidence"]) == ("fenced", {"driver": "killed"})
    assert reconcile(scene(*ASKED, fenced(OLD))) == Wait(RequestOver("mine", 200.0, (NEW,), 30.0))


def test_a_holder_killed_while_its_request_was_aborted_is_fenced_all_the_same() -> None:
    dead = WaitOutcome(Ended.DEAD, OLD, "gone", {"driver": "killed"})
    assert brief(reconcile(scene(*ASKED, MISSED, outcome=dead))) == "fenced OLD"
    again = reconcile(scene(*ASKED, MISSED, fenced(OLD), lives=BEAT))
    assert isinstance(again, Append)
    assert (again.kind, again.fields["to"], again.fields["wish"]) == ("requested", NEW, "take")
    assert again.fields["request"] not in scene(*ASKED).state.requests


@pytest.mark.parametrize(
    ("records", "steps"),
    [
        (WISHED, ["fencing OLD", "kill Dead", "fenced OLD"]),
        (REST, ["fencing OLD", "kill Dead", "fenced OLD"]),
        ([*WISHED, *asked_in_vain(3)], ["fencing OLD", "kill Dead", "fenced OLD"]),
        (WISHED[:-4], ["declare new", "declare new", "fenced OLD"]),
    ],
    ids=["a hand-over", "a stop", "asked in vain", "nobody can take over yet"],
)
def test_a_holder_that_hangs_is_fenced_without_being_asked(records: list[Record], steps: list[str]) -> None:
    dead = WaitOutcome(Ended.DEAD, OLD, "gone", {"driver": "killed"})
    found = [
        brief(reconcile(scene(*records, lives=BEAT, hangs="It hangs."))),
        brief(reconcile(scene(*records, fencing(OLD), lives=BEAT, hangs="It hangs."))),
        brief(reconcile(scene(*records, fencing(OLD), outcome=dead, hangs="It hangs."))),
    ]
    assert found == steps


def test_who_replaced_the_wish_of_a_request_is_said_where_it_is_aborted() -> None:
    step = reconcile(scene(*ASKED, wanted("rest", "stop", by="person:anna")))
    assert isinstance(step, Append)
    record_number = len(ASKED) + 1
    said = f"record {record_number}, by person:anna (a person wants it)."
    assert step.fields["reason"] == f"Another wish has replaced the one that it serves: {said}"


def test_a_hand_over_that_is_given_up_says_how_it_ended_and_who_holds() -> None:
    said = given_up(reconcile(scene(*WISHED, *asked_in_vain(3), lives=BEAT)))
    assert f"The hand-over to {NEW} was aborted: enough. {OLD_DEPLOYMENT} (release 1) holds the stream." in said


def test_a_release_that_is_declared_again_keeps_what_this_version_does_not_know() -> None:
    newer, policy = {"version": "1", "hash": "0" * 64, "jars": ["a.jar"]}, {"colour": "red"}
    known = [replace(r, fields={**r.fields, "release": newer, "policy": policy}) if r.kind == "declared" else r
             for r in RUNNING]  # fmt: skip
    step = reconcile(scene(*known, fenced(OLD), failed(None, OLD_DEPLOYMENT)))
    assert isinstance(step, Declare)
    assert (step.fields["release"], step.fields["policy"], step.fields["again"]) == (newer, policy, OLD_DEPLOYMENT)


def test_a_driver_that_beats_is_alive_and_a_finding_is_over_once_it_beats_again() -> None:
    silent = WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={OLD: False}, counters={OLD: 5})
    for counter, before, step in ((5, {}, "fencing OLD"), (6, {}, "done"), (6, {OLD: 4}, "done")):
        found = scene(*RUNNING, outcome=silent, before=before)
        found = replace(found, snapshot=replace(found.snapshot, heartbeats={OLD: Heartbeat(counter=counter)}))
        assert brief(reconcile(found)) == step
    waits = replace(scene(*RUNNING).snapshot, heartbeats={OLD: Heartbeat(counter=5)})
    for before in ({}, {OLD: 5}):
        found = replace(scene(*RUNNING, before=before), snapshot=waits)
        assert reconcile(found) == Wait(SignsOfLife({OLD: 5}, 30.0))


def test_the_submission_of_a_driver_that_holds_is_recorded_as_long_as_its_heartbeat_tells_it() -> None:
    unheard = [each for each in RUNNING if each.kind != "submitted"]
    found = scene(*unheard, lives=BEAT)
    told = replace(found.snapshot, heartbeats={OLD: Heartbeat(counter=1, submission="driver-7")})
    assert brief(reconcile(replace(found, snapshot=told))) == "submit old"
    assert isinstance(reconcile(found), Done)


def test_a_driver_of_which_the_cluster_has_nothing_left_has_failed() -> None:
    gone = {"o-3": DriverFacts("driver-1", DriverState.FAILED, gone=True)}
    for down in ([*KILLED, comes_up("o-3", "old", OLD_DEPLOYMENT)], [*RUNNING, THIRD, declared("o-3", "third")]):
        step = reconcile(scene(*down, submitted("o-3"), drivers=gone, lives=BEAT))
        assert isinstance(step, Append)
        assert (step.kind, step.fields["deployment"]) == ("failed", "o-3")


def test_a_wish_for_a_job_is_never_forgotten_while_it_may_write() -> None:
    """Whatever else is wished: nobody is brought up or appointed beside it."""
    follows = [wanted("adopt", policy={"adopts": True}), declared(OLD_DEPLOYMENT, "adopt", policy={"adopts": True})]
    step = reconcile(scene(*follows, submitted(OLD_DEPLOYMENT), standby(OLD), wanted("go"), lives=BEAT))
    assert isinstance(step, GiveUp)
    assert f"{OLD_DEPLOYMENT} is to follow a job that may write its checkpoints still." in str(step.error)

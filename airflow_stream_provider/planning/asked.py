"""An operation that a person asks for: what its tasks wish, and the course of events when they do. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.course import ME, Course
from airflow_stream_provider.planning.due import needs
from airflow_stream_provider.planning.foreseen import Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.pursue import pursue
from airflow_stream_provider.planning.retire import end_unneeded, never_held
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Skip, Step, TaskIdentity, Want
from airflow_stream_provider.planning.verbs import Answer
from airflow_stream_provider.planning.waits import Needs, WaitOutcome

# The person who approves a release, or by whose word a job is gone, while that is still to be asked.
YOU = "you"


class Ahead(NamedTuple):
    """The course of an operation that is carried out, and how its last task ends; None: that is not known."""

    course: Course
    end: Done | Skip | GiveUp | None


@dataclass(frozen=True)
class Asked:
    """The request of a person.

    :param snapshot: of the stream; for one that was never deployed, of an empty log.
    :param wanted: the release of the YAML, for what brings one up; the stored one, for a redeployment.
    :param confirmed_by: the person who made sure that the driver, or the job that is to be adopted, is gone.
    :param since: when the person asked, in seconds since 1970: who has come to hold later is not fenced, and what was
        wished later counts. Default: now.
    :param job: the cluster's id of the job that is to be adopted; `snapshot.job` is what the cluster says of it.
    """

    snapshot: Snapshot
    operation: Operation
    wanted: Wanted = field(default_factory=Wanted)
    confirmed_by: str = ""
    since: float = math.inf
    job: str = ""

    def run_forward(self) -> Ahead:
        """State the wishes on a copy, one after the other, and follow what comes of them."""
        course = Course(self.snapshot, hangs=bool(self.wanted.hanging))
        end: Done | Skip | GiveUp | None = None
        for number, verb in enumerate(self._verbs()):
            end = course.follow(Task(self, course, verb), self._me(number))
            adopted = self.operation is Operation.ADOPT and isinstance(end, Done) and end.result.get("adopted", True)
            if adopted or not isinstance(end, Done):
                break
        return Ahead(course, end)

    def _me(self, number: int) -> TaskIdentity:
        return replace(ME, task_id=f"{self.operation.value}-{number}")

    def _verbs(self) -> Sequence[Callable[[Scene], Answer]]:
        """The wishes of the operation's tasks, one after the other."""
        wanted = self.wanted
        match self.operation:
            case Operation.STOP | Operation.RETIRE:
                return (partial(verbs.stop, reason="", for_good=self.operation is Operation.RETIRE),)
            case Operation.START | Operation.RESTART:
                of_yaml: dict[str, Any] = {"approval": wanted.approval, "hash": wanted.hash, "since": self.since}
                anew = self.operation is Operation.RESTART
                return (partial(verbs.start, version=wanted.version, reason="", anew=anew, **of_yaml),)
            case Operation.PROMOTE:
                return (partial(verbs.promote, reason=""),)
            case Operation.ROLL_BACK:
                return (partial(verbs.roll_back, reason=""),)
            case Operation.ABORT:
                return (partial(verbs.withdraw, family="", reason=""),)
            case Operation.ADOPT:
                first = partial(verbs.adopt, reason="", job=self.job, confirmed_by=self.confirmed_by)
                return (
                    partial(first, approval=wanted.approval),
                    partial(verbs.adopt, reason="", confirmed_by=YOU),
                )
        deploy = partial(verbs.stand_by, reason="", since=min(self.since, self.snapshot.at))
        approved = YOU if wanted.approval else "its rehearsal"
        if wanted.restart and self.snapshot.state.holder is not None:
            return (partial(deploy, alone=True, approved=approved),)
        return (deploy, partial(verbs.hand_over, family=self._me(0).wish, reason="", approved=approved))


@dataclass(frozen=True)
class Task:
    """A task of an operation, for the step loop: as the operators are."""

    asked: Asked
    course: Course
    wish: Callable[[Scene], Answer]

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step."""
        same = snapshot.state.holder == self.course.first.state.holder
        scene = Scene(snapshot, identity, outcome, hangs=self.asked.wanted.hanging if same else "")
        return end_unneeded(scene, pursue(scene, lambda: self.wish(scene)), self._left(snapshot), "")

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """Return what the plan needs; it has to know of a job before it wishes anything."""
        found = needs(snapshot, self._left(snapshot))
        return replace(found, job=found.job or self.asked.job)

    def _left(self, snapshot: Snapshot) -> Iterable[str]:
        return never_held(snapshot.state) if self.asked.operation is Operation.ABORT else ()

    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        """State the wish on the copy."""
        wanted, adopts = self.asked.wanted, self.asked.operation is Operation.ADOPT
        release = {"release": {"version": wanted.version, "hash": wanted.hash}, "policy": {"adopts": adopts}}
        fields = {**step.fields, **release} if step.publish else step.fields
        return self.course.append(Kind.WANTED, identity.by, snapshot.state.seq, **fields)

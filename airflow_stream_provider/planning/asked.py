"""An operation that a person asks for: what its tasks wish, and the course of events when they do. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.course import ME, Course, Task
from airflow_stream_provider.planning.foreseen import Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.retire import unneeded
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Skip, TaskIdentity
from airflow_stream_provider.planning.verbs import Answer

# The person who approves a release, or by whose word a job is gone, while that is still to be asked.
YOU = "you"


class Ahead(NamedTuple):
    """The course of an operation that is carried out, and how its last task ends; None: that is not known."""

    course: Course
    end: Done | Skip | GiveUp | None


@dataclass(frozen=True)
class Asked:
    """The request of a person; see `forecast` for the fields."""

    snapshot: Snapshot
    operation: Operation
    wanted: Wanted = field(default_factory=Wanted)
    confirmed_by: str = ""
    since: float = math.inf
    job: str = ""

    def run_forward(self) -> Ahead:
        """State the wishes on a copy, one after the other, and follow what comes of them."""
        course = Course(self.snapshot, hangs=bool(self.wanted.hanging))
        release = {"version": self.wanted.version, "hash": self.wanted.hash}
        policy = {"adopts": self.operation is Operation.ADOPT}
        fields = {"release": release, "policy": policy}
        end: Done | Skip | GiveUp | None = None
        for number, verb in enumerate(self._verbs()):
            task = Task(verb, course, fields, self.wanted.hanging, self.job, self._left)
            end = course.follow(task, self._me(number))
            adopted = self.operation is Operation.ADOPT and isinstance(end, Done) and end.result.get("adopted", True)
            if adopted or not isinstance(end, Done):
                break
        return Ahead(course, end)

    def _me(self, number: int) -> TaskIdentity:
        return replace(ME, task_id=f"{self.operation.value}-{number}")

    def _verbs(self) -> Sequence[Callable[[Scene], Answer]]:
        """The wishes of the operation's tasks, one after the other."""
        wanted, since = self.wanted, self.since
        of_yaml: dict[str, Any] = {"approval": wanted.approval, "hash": wanted.hash}
        match self.operation:
            case Operation.STOP:
                return (partial(verbs.stop, reason=""),)
            case Operation.RETIRE:
                return (partial(verbs.stop, reason="", for_good=True),)
            case Operation.START:
                return (partial(verbs.start, version=wanted.version, reason="", **of_yaml),)
            case Operation.RESTART:
                return (partial(verbs.restart, version=wanted.version, reason="", **of_yaml),)
            case Operation.PROMOTE:
                return (partial(verbs.promote, reason="", since=since),)
            case Operation.ROLL_BACK:
                return (partial(verbs.roll_back, reason="", since=since),)
            case Operation.ABORT:
                return (partial(verbs.withdraw, family="", reason="", since=since),)
            case Operation.ADOPT:
                first = partial(verbs.adopt, reason="", job=self.job, confirmed_by=self.confirmed_by)
                last = partial(verbs.adopt, reason="", confirmed_by=YOU)
                return (partial(first, approval=wanted.approval), last)
        return self._verbs_of_a_run()

    def _verbs_of_a_run(self) -> Sequence[Callable[[Scene], Answer]]:
        since = min(self.since, self.snapshot.at)
        approved = YOU if self.wanted.approval else "its rehearsal"
        if self.wanted.restart and self.snapshot.state.holder is not None:
            return (partial(verbs.replace, reason="", since=since, approved=approved),)
        family = self._me(0).wish
        return (
            partial(verbs.stand_by, reason="", since=since),
            partial(verbs.hand_over, family=family, reason="", approved=approved),
        )

    def _left(self, scene: Scene) -> tuple[str, ...]:
        if self.operation is not Operation.ABORT:
            return ()
        state = scene.state
        return unneeded(scene, {d.family for d in state.deployments.values() if not state.has_run(d.family)})

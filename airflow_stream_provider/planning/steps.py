"""The steps of an operator, and the identities of the tasks and commands that take them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.ids import request_id
from airflow_stream_provider.lifecycle.rules import is_so
from airflow_stream_provider.lifecycle.state import DeploymentEnd, RequestStage, StreamState
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.waits import Condition


@dataclass(frozen=True)
class Done:
    """All is done; `result` becomes the XCom."""

    result: Mapping[str, Any]

    def __str__(self) -> str:
        return "done"


@dataclass(frozen=True)
class Skip:
    """Nothing was to be done: the task is skipped with this reason."""

    reason: str

    def __str__(self) -> str:
        return f"nothing to do: {self.reason}".rstrip(".")


@dataclass(frozen=True)
class GiveUp:
    """It cannot be done, and no retry of the task changes that: the task fails without retries.

    `log_of`: deployment whose driver's log may say why; empty: none.
    """

    error: StreamError
    log_of: str = ""

    def __str__(self) -> str:
        return "giving up"


@dataclass(frozen=True)
class Later:
    """Nothing can be done before `until` (seconds since 1970). The watch comes back; a task fails with the error.

    :param lost: whether the last deployment was only lost, with its machine: a task waits then.
    """

    until: float
    error: StreamError
    deployment: str
    lost: bool = False
    log_of: str = ""

    def __str__(self) -> str:
        return "not yet"


@dataclass(frozen=True)
class AskPerson:
    """A person is to end the job that a deployment follows, and to say so; `says`: how far that job is."""

    deployment: str
    says: str

    def __str__(self) -> str:
        return f"asking a person to end the job that {self.deployment} follows"


@dataclass(frozen=True)
class Want:
    """Append `wanted`, once the release is published that the task asks for, where the wish names none.

    :param fields: of the record, without the release.
    """

    fields: Mapping[str, Any]
    publish: bool = False

    def __str__(self) -> str:
        return f"wishing {self.fields['goal']} ({self.fields.get('reason', '')})"


@dataclass(frozen=True)
class Wait:
    """Wait until the condition is met.

    `log_of`: deployment whose driver has been silent for long, and whose log may say why; empty: none.
    """

    condition: Condition
    log_of: str = ""

    def __str__(self) -> str:
        return f"waiting for {self.condition.description}"


@dataclass(frozen=True)
class Append:
    """Append a record, if nothing was appended since the plan looked."""

    kind: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        names = ("deployment", "incarnation", "request", "to", "reason")
        said = ", ".join(f"{name} {self.fields[name]}" for name in names if self.fields.get(name))
        return f"appending {self.kind} ({said})"


@dataclass(frozen=True)
class Declare:
    """Declare a deployment, if the cluster has room."""

    deployment: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return f"declaring {self.deployment}"


@dataclass(frozen=True)
class Submit:
    """Submit a declared deployment exactly once."""

    deployment: str

    def __str__(self) -> str:
        return f"submitting {self.deployment}"


@dataclass(frozen=True)
class Kill:
    """Kill a deployment's driver on the cluster, then wait; only the condition `then` confirms that it is dead."""

    deployment: str
    then: Condition

    def __str__(self) -> str:
        return f"killing {self.deployment}, then waiting for {self.then.description}"


@dataclass(frozen=True)
class Refusal:
    """The batches of a driver, which the ledger of the sinks is to refuse from now on.

    :param ledger: Airflow connection of its database.
    :param incarnation: the driver.
    :param epoch: of its hold.
    :param queries: Spark's ids of all its queries.
    """

    ledger: str
    incarnation: str
    epoch: int
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Refuse:
    """Have the ledger refuse a driver, then append `fenced`; where it does not, wait until the driver is dead."""

    refusal: Refusal
    fenced: Append
    then: Condition

    def __str__(self) -> str:
        return f"having the ledger refuse {self.refusal.incarnation}"


@dataclass(frozen=True)
class EndJob:
    """Have the cluster end a job without a stream, then wait; only a look confirms that it is gone."""

    job: str
    then: Condition

    def __str__(self) -> str:
        return f"ending {self.job}"


Step = Done | Skip | GiveUp | Later | AskPerson | Wait | Want | Append | Declare | Submit | Kill | Refuse | EndJob


@dataclass(frozen=True)
class TaskIdentity:
    """One task of one run, without the try number: a retried or cleared task has the same identity (rule 5)."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> TaskIdentity:
        """Return the identity of the task that Airflow's context describes."""
        ti = context["ti"]
        index = -1 if ti.map_index is None else ti.map_index
        return cls(ti.dag_id, ti.run_id, ti.task_id, index)

    @property
    def run(self) -> str:
        """The prefix of `by` that all tasks of the run share."""
        return f"airflow:{self.dag_id}/{self.run_id}/"

    @property
    def by(self) -> str:
        """The author in the task's records."""
        return f"{self.run}{self.task_id}" + (f"[{self.map_index}]" if self.map_index >= 0 else "")

    def request(self, *parts: object) -> str:
        """Return the id of a request of this task; `parts` tell its purpose."""
        return request_id(self.dag_id, self.run_id, self.task_id, self.map_index, *parts)

    @property
    def wish(self) -> str:
        """The id of what this task wishes."""
        return self.request("wish")


@dataclass(frozen=True)
class CommandIdentity(TaskIdentity):
    """One command: its person (`dag_id`), its first time (`run_id`), and its part (`task_id`).

    :param continued: whether it goes on with an earlier command, which was cut off or may have been.
    """

    continued: bool = False

    @property
    def run(self) -> str:
        """The prefix of `by` that all parts of the command share."""
        return f"person:{self.dag_id}/{self.run_id}/"


def person(user: str, host: str) -> str:
    """Return the person of a command, such as ``anna@edge1``."""
    return re.sub(r"[^A-Za-z0-9_.@+-]", "-", f"{user}@{host}")[:100]


def command_identity(state: StreamState, who: str, operation: Operation, at: float) -> CommandIdentity:
    """Return the identity of a command.

    It is that of an earlier command of the same person, where that was cut off: what it wishes is followed, and not
    wished twice.

    :param at: now, in seconds since 1970.
    """
    earlier = _unfinished(state, who, operation.value)
    new = new_command(who, operation.value, at)
    return replace(new, run_id=earlier, continued=True) if earlier else new


def new_command(who: str, part: str, at: float) -> CommandIdentity:
    """Return the identity of a command that goes on with no earlier one.

    :param at: now, in seconds since 1970.
    """
    return CommandIdentity(who, f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%fZ}", part)


def _unfinished(state: StreamState, who: str, task: str) -> str:
    """Return when the last such command was given, if what it wishes is wished still, and is not so yet; else empty."""
    by = re.compile(rf"person:{re.escape(who)}/([^/]+)/{re.escape(task)}")
    for wish in (state.candidate, state.wish):
        mine = None if wish is None else by.fullmatch(wish.by)
        if wish is not None and mine and not _is_over(state, wish):
            return mine[1]
    return ""


def _is_over(state: StreamState, wish: Wish) -> bool:
    """Whether a wish has been fulfilled, or its driver or a change of holder for it has failed; drivers may still have
    to stop.
    """
    failed = (RequestStage.ABORTED, RequestStage.TAKEN_BACK)
    if any(request.wish == wish.id and request.stage in failed for request in state.requests.values()):
        return True
    if wish.goal.rest:
        return False
    if any(each.ended is DeploymentEnd.FAILED and each.ended_seq > wish.seq for each in state.family(wish.family)[-1:]):
        return True
    return is_so(state, wish)

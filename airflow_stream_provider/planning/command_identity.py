"""The identity of a command that a person gives: what its records, requests and deployments are named by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_stream_provider.lifecycle.state import RequestStage, StreamState
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.task_identity import TaskIdentity


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


def command_identity(state: StreamState, who: str, operation: Operation, part: Operation, at: float) -> CommandIdentity:
    """Return the identity of a part of a command.

    It is that of an earlier command of the same person, if that was cut off: what it has asked for is followed, and not
    asked for twice.

    :param at: now, in seconds since 1970.
    """
    task = part.value if part is operation else f"{operation.value}.{part.value}"
    earlier = _unfinished(state, who, task)
    now = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return CommandIdentity(who, earlier or now, task, continued=bool(earlier))


def _unfinished(state: StreamState, who: str, task: str) -> str:
    """Return when the last such command was given, if something of it may be left to do; or an empty text."""
    by = re.compile(rf"person:{re.escape(who)}/([^/]+)/{re.escape(task)}")
    for request in reversed(state.requests.values()):
        mine = by.fullmatch(request.by)
        stops = request.to is None and request.stage is RequestStage.DONE
        if mine and (request.stage.open or stops):
            return mine[1]
        if mine or (request.to is not None and request.stage is not RequestStage.ABORTED):
            break  # it has failed, or is over, or another driver was appointed since
    for deployment in reversed(list(state.deployments.values())):
        mine = by.fullmatch(deployment.declared.by)
        if mine and not deployment.ended and not state.has_held(deployment.id):
            return mine[1]
    return ""

"""The one next step of an operator: a value that a pure plan returns and the operator carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.conditions import Condition


@dataclass(frozen=True)
class Done:
    """Nothing is left to do; `result` becomes the XCom."""

    result: Mapping[str, Any]

    def __str__(self) -> str:
        return "done"


@dataclass(frozen=True)
class Skip:
    """There was nothing to do: the task is skipped, with this reason."""

    reason: str

    def __str__(self) -> str:
        return f"nothing to do: {self.reason}".rstrip(".")


@dataclass(frozen=True)
class GiveUp:
    """It cannot be done, and no retry of this task changes that."""

    error: StreamError

    def __str__(self) -> str:
        return "giving up"


@dataclass(frozen=True)
class Wait:
    """Defer until the goal is reached."""

    condition: Condition

    def __str__(self) -> str:
        return f"waiting for {self.condition.description}"


@dataclass(frozen=True)
class Append:
    """Write a record if the log is still as it was when this was decided."""

    kind: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        names = ("deployment", "incarnation", "request", "to", "reason")
        said = ", ".join(f"{name} {self.fields[name]}" for name in names if self.fields.get(name))
        return f"appending {self.kind} ({said})"


@dataclass(frozen=True)
class Declare:
    """Publish the release that the task asks for and declare a deployment of it, if the cluster has room."""

    deployment: str
    reason: str

    def __str__(self) -> str:
        return f"declaring {self.deployment}"


@dataclass(frozen=True)
class Submit:
    """Submit a declared deployment, exactly once."""

    deployment: str

    def __str__(self) -> str:
        return f"submitting {self.deployment}"


@dataclass(frozen=True)
class Kill:
    """Kill a deployment's driver on the cluster, then wait: only the goal says that it is dead."""

    deployment: str
    then: Condition

    def __str__(self) -> str:
        return f"killing {self.deployment}, then waiting for {self.then.description}"


Step = Done | Skip | GiveUp | Wait | Append | Declare | Submit | Kill

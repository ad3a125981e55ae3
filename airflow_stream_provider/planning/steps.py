"""The steps of an operator: a plan returns one, and the operator carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.condition import Condition


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
class Wait:
    """Defer the task until the condition is met.

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
    """Publish the release that the task asks for and declare a deployment of it, if the cluster has room."""

    deployment: str
    reason: str

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
class EndJob:
    """Have the cluster end a job without a stream, then wait; only a look confirms that it is gone."""

    job: str
    then: Condition

    def __str__(self) -> str:
        return f"ending {self.job}"


Step = Done | Skip | GiveUp | Wait | Append | Declare | Submit | Kill | EndJob

"""The one next step of an operator: a value that a pure plan returns and the operator carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.hooks.goals import Goal
from airflow_stream_provider.model.errors import StreamError


@dataclass(frozen=True)
class Done:
    """Nothing is left to do; `result` becomes the XCom."""

    result: Mapping[str, Any]


@dataclass(frozen=True)
class Skip:
    """There was nothing to do: the task is skipped, with this reason."""

    reason: str


@dataclass(frozen=True)
class GiveUp:
    """It cannot be done, and no retry of this task changes that."""

    error: StreamError


@dataclass(frozen=True)
class Wait:
    """Defer until the goal is reached."""

    goal: Goal


@dataclass(frozen=True)
class Append:
    """Write a record if the log is still as it was when this was decided."""

    kind: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Submit:
    """Submit a declared deployment, exactly once."""

    deployment: str


@dataclass(frozen=True)
class Kill:
    """Kill a deployment's driver on the cluster, then wait: only the goal says that it is dead."""

    deployment: str
    then: Goal


Step = Done | Skip | GiveUp | Wait | Append | Submit | Kill

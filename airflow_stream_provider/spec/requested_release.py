"""A release as the YAML and the form describe it: checked, published, declared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.clusters import Job, refuse_secrets
from airflow_stream_provider.clusters.secrets import check_arguments
from airflow_stream_provider.hooks.submit import job_of
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.planning.steps import Append
from airflow_stream_provider.planning.task_identity import TaskIdentity

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.spec.stream import StreamSpec


@dataclass(frozen=True)
class RequestedRelease:
    """What a person wants to run: the YAML, with what the form says instead."""

    spec: StreamSpec
    version: str
    application: str
    arguments: tuple[str, ...]
    changed_checkpoints: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        spec: StreamSpec,
        version: str | None,
        application: str | None,
        arguments: Sequence[str] | str | None,
        changed_checkpoints: Sequence[str] | str | None,
    ) -> RequestedRelease:
        """Return it from an operator's parameters; what is None or empty is as the YAML says.

        :raises SpecError: a list that is given as text is not a JSON list.
        """
        return cls(
            spec,
            version or spec.version,
            application or spec.application,
            spec.arguments if arguments is None else _words("arguments", arguments),
            _words("changed_checkpoints", changed_checkpoints or ()),
        )

    @property
    def application_path(self) -> Path:
        """Where the script is."""
        return self.spec.path(self.application)

    @property
    def py_files(self) -> list[Path]:
        """Where the modules that go with it are."""
        return [self.spec.path(name) for name in self.spec.py_files]

    def check(self) -> None:
        """Raise SpecError unless every file is there and is Python, and nothing in it looks like a secret."""
        refuse_secrets(self.spec.conf)
        check_arguments(self.arguments)
        for path in (self.application_path, *self.py_files):
            if not path.is_file():
                raise SpecError(
                    f"There is no file {path}.",
                    next_step="Check `application` and `py_files`: relative paths start at the folder that holds the "
                    "folder of the YAML files.",
                    path=str(path),
                )
            if path.suffix == ".py":
                _compile(path)

    def publish(self, hook: StreamHook) -> Release:
        """Copy it beside the control log, under its hash."""
        return hook.publish(
            version=self.version,
            application=self.application_path,
            arguments=self.arguments,
            py_files=self.py_files,
            conf=self.spec.conf,
        )

    def job(self, hook: StreamHook, deployment: str) -> Job:
        """Return what the cluster would be asked to run."""
        return job_of(self.spec.name, self.spec.control, hook.folder, deployment, self.publish(hook))

    def declare(self, hook: StreamHook, identity: TaskIdentity, reason: str) -> Append:
        """Check it, see whether the cluster has room for it, and return the record that declares it.

        :raises SpecError: see `check`. :raises ClusterError: no room, or no answer; nothing was declared.
        """
        self.check()
        deployment = identity.deployment(self.spec.name, self.version)
        hook.cluster.check(self.job(hook, deployment))
        policy = self.spec.policy(self.changed_checkpoints)
        fields: dict[str, Any] = {
            "deployment": deployment,
            "release": self.publish(hook).to_json(),
            "policy": policy.to_json(),
            "reason": reason or identity.by,
        }
        return Append(Kind.DECLARED, fields)


def _words(name: str, value: Sequence[str] | str) -> tuple[str, ...]:
    """Return a list of words, also from the JSON that a template makes of it."""
    if not isinstance(value, str):
        return tuple(str(word) for word in value)
    try:
        words = json.loads(value or "[]")
        if not isinstance(words, list):
            raise ValueError(type(words).__name__)
    except ValueError as error:
        raise SpecError(
            f"`{name}` is not a JSON list.", next_step='Write it like ["--input", "orders"], or use `| tojson`.'
        ) from error
    return tuple(str(word) for word in words)


def _compile(path: Path) -> None:
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else error
        raise SpecError(
            f"{path}{line}: this is not Python: {what}.", next_step="Correct the script; nothing was submitted."
        ) from error

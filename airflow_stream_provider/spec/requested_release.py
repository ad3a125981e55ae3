"""The release that a person asks for: the YAML, with what the form says instead."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_stream_provider.clusters import refuse_secret_arguments, refuse_secret_conf
from airflow_stream_provider.lifecycle.errors import SpecError
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
        """Build it from an operator's parameters; the YAML fills in what is None or empty.

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
        refuse_secret_conf(self.spec.conf)
        refuse_secret_arguments(self.arguments)
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

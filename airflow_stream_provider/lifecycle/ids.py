"""Names from users and the ids made of them; what passes here is safe in a path, a URL and a shell word."""

from __future__ import annotations

import hashlib
import re

from airflow_stream_provider.lifecycle.errors import SpecError

STREAM = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
DEPLOYMENT = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}")
INCARNATION = re.compile(DEPLOYMENT.pattern + r"\.[0-9a-f]{8}")


def check_stream_name(name: str) -> str:
    """Return the name, or raise SpecError when it could become a path or a shell word of its own."""
    if not STREAM.fullmatch(name):
        raise SpecError(
            f"{name!r} cannot be a stream's name: up to 63 of a-z, 0-9, '_' and '-', starting with a letter or digit.",
            next_step="Rename the stream.",
            name=name,
        )
    return name


def check_id(value: str, pattern: re.Pattern[str]) -> str:
    """Return a deployment or incarnation id that has the wanted form; raise SpecError otherwise."""
    if not pattern.fullmatch(value):
        raise SpecError(f"{value!r} is not an id of the form {pattern.pattern}.", next_step="Take it from the log.")
    return value


def request_id(*parts: object) -> str:
    """Identity of one act of one task: made of dag, run, task and map index, never of the try."""
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def deployment_id(stream: str, version: str, *parts: object) -> str:
    """Id of a deployment: readable, and the same for every try of the task that declares it."""
    label = re.sub(r"[^a-z0-9]+", "-", version.lower()).strip("-")[:24]
    return f"{stream}-{label}-{request_id(stream, version, *parts)[:8]}"


def deployment_of(incarnation: str) -> str:
    """Return the deployment that an incarnation belongs to."""
    return incarnation.rpartition(".")[0]

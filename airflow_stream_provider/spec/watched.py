"""A stream to watch."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_stream_provider.spec.stream import StreamSpec


@dataclass(frozen=True)
class Watched:
    """A stream to watch.

    :param spec: as its YAML says; if that cannot be used, its last good declaration.
    :param problem: why its YAML cannot be used; empty: it can.
    """

    spec: StreamSpec
    problem: str = ""

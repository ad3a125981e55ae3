"""The operations of a place for a stream's releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_stream_provider.lifecycle.release import Release

# Newer files stay: a release that is about to be declared, a starting driver, a slow writer's file.
IDLE_SECONDS = 86400.0

Decide = Callable[[frozenset[str]], frozenset[str]]
"""Takes the hashes of releases that were not published lately, and returns those that may go."""


class ReleasePlace(Protocol):
    """Where the releases of one stream are stored, each in a folder of its own, named by its hash.

    Every method raises StorageUnavailable (ControlUnavailable for a folder) if the place cannot be used now, and
    SpecError if a person has to change something first, such as the name of a bucket.
    """

    def publish(self, release: Release, files: Mapping[str, bytes]) -> None:
        """Store a release's files whole or not at all, and verify what is stored; the same release again is no error.

        :raises StreamError: the release was published before, and its files have changed since.
        """

    def verify(self, release: Release) -> dict[str, str]:
        """Read back what is stored, and check that it is what was published, and nothing else (rule 8).

        :return: the SHA-256 of each file, by its name.
        :raises StreamError: a file is missing, has changed, or does not belong there.
        """

    def clean_up(self, decide: Decide) -> frozenset[str]:
        """Remove the releases that may go, and what killed writers have left; return the hashes that may go.

        Releases that were published within `IDLE_SECONDS` stay. A release that cannot be removed is logged.

        :param decide: is called after the place was listed.
        """


@dataclass(frozen=True)
class StorageConnection:
    """The fields of the Airflow connection of a storage; those that may hold a secret are not shown.

    :param conn_id: its id, for messages.
    :param conn_type: its type: aws, hdfs, wasb, adls or google_cloud_platform.
    :param host: host, or several separated by commas.
    """

    conn_id: str
    conn_type: str
    host: str = ""
    port: int | None = None
    login: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

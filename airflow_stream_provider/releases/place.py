"""A place for a stream's releases: what it can do, and the manifest of a release.

A release without a manifest was not published whole. The launcher checks by it what it has fetched, before it imports
anything of it (`runtime.launcher`), and then against the control log.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_stream_provider.control.releases import changed, check_files, file_hashes
from airflow_stream_provider.lifecycle.errors import SpecError, StorageUnavailable
from airflow_stream_provider.lifecycle.ids import RELEASE_HASH
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.runtime.launcher import MANIFEST

log = logging.getLogger(__name__)

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


class RemotePlace(ABC):
    """A place that is no folder, as far as places of all kinds are alike; implements `ReleasePlace` but for `publish`.

    :param url: what it is, for messages.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def verify(self, release: Release) -> dict[str, str]:
        """Verify a release; see `ReleasePlace.verify`."""
        where, found = f"{self._url}/{release.hash}", self._names(release.hash)
        return check_stored(release, where, found, lambda name: self._read(f"{release.hash}/{name}"))

    def clean_up(self, decide: Decide) -> frozenset[str]:
        """Remove what may go; see `ReleasePlace.clean_up`."""
        written = self._written()
        if not written:
            return frozenset()
        now = self._now(written)
        idle = sorted(name for name, at in written.items() if now - at > IDLE_SECONDS)
        gone = decide(frozenset(filter(RELEASE_HASH.fullmatch, idle)))
        for name in idle:
            if name in gone or name.startswith("."):
                try:
                    self._remove(name)
                except (SpecError, StorageUnavailable) as error:
                    log.warning("%s/%s cannot be removed: %s", self._url, name, error)
        return gone

    @abstractmethod
    def _names(self, hash: str) -> Collection[str]:
        """Return the names of the files of a release; empty: there is none."""

    @abstractmethod
    def _read(self, path: str) -> bytes:
        """Return a file that was listed; raises FileNotFoundError if it has gone since."""

    @abstractmethod
    def _written(self) -> Mapping[str, float]:
        """Return when each folder was written last, in seconds since 1970 by the place's clock."""

    @abstractmethod
    def _now(self, written: Mapping[str, float]) -> float:
        """Return the time by the clock that dates the folders."""

    @abstractmethod
    def _remove(self, name: str) -> None:
        """Remove a folder, so that no reader takes a part of a release for the whole."""


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


# No comma, which separates Spark's lists of files, no "#", which ends a URL, no colon, which HDFS refuses; and nothing
# that is another name where the driver's JVM has another character set.
_NAME = re.compile(r"[A-Za-z0-9_.+=-]+")


def manifest_of(release: Release, files: Mapping[str, bytes]) -> bytes:
    """Return the manifest of a release with these files; the same release gives the same bytes.

    :raises SpecError: a file of the release has the manifest's name, or one that cannot be fetched everywhere.
    """
    for name in files:
        if name == MANIFEST or not _NAME.fullmatch(name):
            raise SpecError(
                f"A file of the release is named {name!r}, which `storage` does not take.",
                next_step=f"Rename it: letters, digits and _.+=- only, and not {MANIFEST}.",
                name=name,
            )
    return _manifest(release, file_hashes(files))


def check_stored(release: Release, where: str, found: Collection[str], read: Callable[[str], bytes]) -> dict[str, str]:
    """Check that a place holds a release as it was published, with its manifest; see `check_files`.

    :param read: returns the contents of one of the files; raises FileNotFoundError if it has gone since it was found.
    """
    # One at a time: each may be large.
    contents = check_files(release, where, set(found), lambda name: _sha256(read(name)), MANIFEST)
    if contents.pop(MANIFEST) != _sha256(_manifest(release, contents)):
        raise changed(release, where, [f"{MANIFEST} is another one"])
    return contents


def _manifest(release: Release, contents: Mapping[str, str]) -> bytes:
    return json.dumps({"settings": release.settings(), "files": contents}, sort_keys=True).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

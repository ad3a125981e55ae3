"""A place for a stream's releases: its address, what it can do, and the manifest of a release.

A release without it was not published whole. The launcher checks by it what it has fetched, before it imports anything
of it (`runtime.launcher`), and then against the control log.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from airflow_stream_provider.control.releases import changed, file_hashes, file_names, release_hash
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.runtime.launcher import MANIFEST

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


# The form of each scheme.
FORMS = {
    "file": "file:///a/folder",
    "s3a": "s3a://bucket/prefix",
    "abfss": "abfss://container@account.dfs.core.windows.net/prefix",
    "gs": "gs://bucket/prefix",
    "hdfs": "hdfs://host:port/path",
}
# Characters that are safe in a URL, a path, a key of an object store and an argument of spark-submit, whose lists have
# commas.
_PATH = re.compile(r"(?:/[A-Za-z0-9_.=+-]+)*")
# The folder of one control log below a storage. No stream's name has a dot: it is not the folder of a stream.
_OF_LOG = re.compile(r"/log\.[0-9a-f]{32}\Z")
_AUTHORITY = {
    "s3a": re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
    "gs": re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
    "abfss": re.compile(r"[a-z0-9$-]{1,63}@[a-z0-9]{3,24}\.dfs\.core\.windows\.net"),
    "hdfs": re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?"),
}


@dataclass(frozen=True)
class StorageAddress:
    """A place that Airflow writes releases to and drivers fetch them from.

    :param scheme: one of `FORMS`.
    :param authority: bucket, container@account, or host:port of a NameNode; empty for a folder.
    :param path: ``/prefix``; empty for the root of a bucket.
    """

    scheme: str
    authority: str
    path: str

    @classmethod
    def parse(cls, url: str) -> StorageAddress:
        """Return the storage that a URL names; ``s3://`` is the same as ``s3a://``.

        :raises SpecError: it is no URL of a storage.
        """
        try:
            parts = urlsplit(url.strip())
        except ValueError:
            raise _refused("is not a URL") from None
        scheme = {"s3": "s3a"}.get(parts.scheme, parts.scheme)
        if scheme not in FORMS:
            raise _refused(f"begins with {parts.scheme}://" if parts.scheme else "is not a URL")
        if parts.query or parts.fragment or "?" in url or "#" in url:
            raise _refused("has a query or a fragment; keys and passwords belong to `storage_connection`")
        if scheme == "file":
            return cls._folder(parts.netloc, unquote(parts.path))
        path = parts.path.rstrip("/")
        if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
            raise _refused("has a path with something else than names of letters, digits and _.=+-")
        if not _AUTHORITY[scheme].fullmatch(parts.netloc):
            # Not quoted: a password may stand there.
            raise _refused(f"has no valid name after {scheme}://")
        return cls(scheme, parts.netloc, path)

    @classmethod
    def _folder(cls, host: str, path: str) -> StorageAddress:
        if host not in ("", "localhost") or not path.startswith("/") or "\0" in path or path.strip("/") == "":
            raise _refused("is not file:///an/absolute/folder")
        if "," in path:
            raise _refused("has a comma in its path, which separates the files in Spark's lists (--py-files)")
        return cls("file", "", path.rstrip("/"))

    @property
    def url(self) -> str:
        """The URL in one form for all ways to write it, as Hadoop's file systems take it."""
        return Path(self.path).as_uri() if self.scheme == "file" else f"{self.scheme}://{self.authority}{self.path}"

    def of_log(self, control: str, log: str) -> StorageAddress:
        """Return the part of this storage in which one control log publishes and cleans up, and no other one does.

        :param control: control URL. A copy of a control folder has the id of the first, and most often another URL.
        :param log: the log's id (`ControlRoot.log_id`), as one URL may lead to another log on another machine.
        """
        # Hashed: neither of the two is checked to be safe in a path.
        name = hashlib.sha256(f"{log} {control}".encode()).hexdigest()[:32]
        return replace(self, path=f"{self.path}/log.{name}")

    @property
    def whole(self) -> StorageAddress:
        """The storage that `of_log` has made this a part of; itself, if it is none."""
        return replace(self, path=_OF_LOG.sub("", self.path))

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder that Airflow and all drivers mount."""
        return self.scheme == "file"


def _refused(found: str) -> SpecError:
    return SpecError(f"The URL of the storage {found}.", next_step=f"Write {' or '.join(FORMS.values())}.")


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
    """Check that a place holds the files of a release as they were published, and nothing else (rule 8).

    :param where: the place, for the message.
    :param found: the names that are there.
    :param read: returns the contents of one of them; raises FileNotFoundError if it has gone since it was found.
    :return: the SHA-256 of each file, by its name.
    :raises StreamError: a file is missing, has changed, or does not belong there.
    """
    names = {*file_names(release), MANIFEST}
    contents: dict[str, str] = {}
    problems = [f"{name} is missing" for name in sorted(names - set(found))]
    problems += [f"{name!r} does not belong there" for name in sorted(set(found) - names)]
    if not problems:
        try:
            # One at a time: each may be large.
            for name in sorted(names - {MANIFEST}):
                contents |= file_hashes({name: read(name)})
            manifest = read(MANIFEST)
        except FileNotFoundError as error:
            problems = [f"{PurePosixPath(error.filename).name} is missing"]
        else:
            digest = release_hash(release.settings(), contents)
            if digest != release.hash:
                problems = [f"their hash is {digest} and was {release.hash}"]
            elif manifest != _manifest(release, contents):
                problems = [f"{MANIFEST} is another one"]
    if problems:
        raise changed(release, where, problems)
    return contents


def _manifest(release: Release, contents: Mapping[str, str]) -> bytes:
    return json.dumps({"settings": release.settings(), "files": contents}, sort_keys=True).encode()

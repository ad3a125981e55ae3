"""The URL of a storage for releases."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_stream_provider.lifecycle.errors import SpecError

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

"""Releases in an object store: S3 and what speaks its protocol, Azure, Google."""

from __future__ import annotations

import contextlib
import errno
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lifecycle.errors import SpecError, StorageUnavailable, StreamError
from airflow_stream_provider.lifecycle.ids import RELEASE_HASH
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.manifest import check_stored, manifest_of
from airflow_stream_provider.releases.obstore_errors import explain, is_retained
from airflow_stream_provider.releases.place import IDLE_SECONDS, Decide
from airflow_stream_provider.runtime.launcher import MANIFEST

if TYPE_CHECKING:
    from obstore.store import ObjectStore

log = logging.getLogger(__name__)

# How long another publisher of the same release may need. Some stores list an object later than they refuse its twin.
PATIENCE_SECONDS = 10.0


class ObjectPlace:
    """Releases as objects ``<hash>/<file>``; implements `ReleasePlace`.

    Objects are created and never replaced, the manifest last. Where a store ignores the condition (some that are like
    S3 do), two publishers of one release write the same bytes twice.

    :param store: an obstore that begins at the stream's releases.
    :param uploads: the same, with time enough to write a large file.
    :param url: what it is, for messages.
    """

    def __init__(self, store: ObjectStore, uploads: ObjectStore, url: str) -> None:
        self._store = store
        self._uploads = uploads
        self._url = url

    def publish(self, release: Release, files: Mapping[str, bytes]) -> None:
        """Store a release; see `ReleasePlace.publish`."""
        manifest = manifest_of(release, files)
        known = MANIFEST in self._names(release.hash)
        if not known:
            for name, data in files.items():
                self._create(f"{release.hash}/{name}", data)
            self._create(f"{release.hash}/{MANIFEST}", manifest)
        self._verify_patiently(release)
        if known:
            self._freshen(f"{release.hash}/{MANIFEST}", manifest)

    def verify(self, release: Release) -> dict[str, str]:
        """Verify a release; see `ReleasePlace.verify`."""
        where = f"{self._url}/{release.hash}"
        return check_stored(
            release, where, self._names(release.hash), lambda name: self._read(f"{release.hash}/{name}")
        )

    def clean_up(self, decide: Decide) -> frozenset[str]:
        """Remove what may go; see `ReleasePlace.clean_up`."""
        newest: dict[str, float] = {}
        keys = defaultdict(list)
        with self._explained("read"):
            for chunk in _obstore().list(self._store):
                for each in chunk:
                    name = each["path"].partition("/")[0]
                    keys[name].append(each["path"])
                    newest[name] = max(newest.get(name, 0.0), each["last_modified"].timestamp())
        # By the clock that dates the objects. Nothing is written to ask for the time, since retention would keep it.
        now = max(newest.values(), default=0.0)
        idle = {name for name, at in newest.items() if now - at > IDLE_SECONDS}
        gone = decide(frozenset(name for name in idle if RELEASE_HASH.fullmatch(name)))
        for name in sorted(idle):
            if name in gone or name.startswith("."):
                self._remove(keys[name])
        return gone

    def _freshen(self, key: str, data: bytes) -> None:
        """Write what is stored once more: the clean-up, which knows of no deployment of it yet, takes it for new.

        A store whose retention refuses that does not let it be removed either.
        """
        from obstore.exceptions import BaseError

        with self._explained("written"):
            try:
                _obstore().put(self._store, key, data, use_multipart=False)
            except BaseError as error:
                if not is_retained(error):
                    raise

    def _verify_patiently(self, release: Release) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.verify(release)
                return
            except (SpecError, StorageUnavailable):
                raise
            except StreamError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def _remove(self, keys: list[str]) -> None:
        # The manifest first: no reader shall take a part of a release for the whole.
        for key in sorted(keys, key=lambda key: not key.endswith(f"/{MANIFEST}")):
            try:
                # Some stores say so when another clean-up was faster.
                with self._explained("written"), contextlib.suppress(FileNotFoundError):
                    _obstore().delete(self._store, key)
            except (SpecError, StorageUnavailable) as error:
                log.warning("%s cannot be removed: %s", key, error)
                return

    def _names(self, hash: str) -> list[str]:
        with self._explained("read"):
            found = [each["path"] for chunk in _obstore().list(self._store, f"{hash}/") for each in chunk]
        return [path.removeprefix(f"{hash}/") for path in found]

    def _read(self, key: str) -> bytes:
        """Return an object that was listed.

        :raises FileNotFoundError: it has gone since.
        """
        with self._explained("read"), contextlib.suppress(FileNotFoundError):
            return bytes(_obstore().get(self._store, key).bytes())
        raise FileNotFoundError(errno.ENOENT, "it has gone since it was listed", key)

    def _create(self, key: str, data: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError

        # Another process may be publishing the same contents; what it wrote is verified.
        with self._explained("written"), contextlib.suppress(AlreadyExistsError):
            _obstore().put(self._uploads, key, data, mode="create", use_multipart=False)

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Raise an error of ours in place of obstore's, whose text may hold a signed address."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:  # its own NotFoundError is not what obstore raises
            raise explain(error, f"The storage {self._url} cannot be {what}") from None


def _obstore() -> Any:
    import obstore

    return obstore

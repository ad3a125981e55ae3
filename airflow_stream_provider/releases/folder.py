"""Releases in a folder that Airflow and all drivers mount."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from airflow_stream_provider.control.disk import idle, make_folder, now, open_folder, remove, unavailable
from airflow_stream_provider.control.releases import store, verify
from airflow_stream_provider.lifecycle.errors import StorageUnavailable
from airflow_stream_provider.lifecycle.ids import RELEASE_HASH
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.place import IDLE_SECONDS, Decide

log = logging.getLogger(__name__)


class FolderPlace:
    """Releases in ``releases/`` of a stream's folder; implements `ReleasePlace`.

    :param folder: the stream's folder.
    :param root: the folder of a storage of its own, below which the stream's folder is made; None: the stream's folder
        is that under the control URL, which `FilesStore` has made.
    """

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self._folder = folder
        self._root = root

    def publish(self, release: Release, files: Mapping[str, bytes]) -> None:
        """Store a release; see `ReleasePlace.publish`."""
        if self._root is not None:
            self._make_folders(self._root)
        store(self._folder, release, files)

    def verify(self, release: Release) -> dict[str, str]:
        """Verify a release; see `ReleasePlace.verify`."""
        return verify(release.folder(self._folder), release)

    def clean_up(self, decide: Decide) -> frozenset[str]:
        """Remove what may go; see `ReleasePlace.clean_up`.

        Folders are never followed when they are links: a writer of the control root, or of the storage, could have
        anything removed that Airflow's user may remove, such as another storage's releases.
        """
        with unavailable(self._folder), ExitStack() as opened:
            first, *others = self._folders()
            try:
                releases = opened.enter_context(open_folder(first))
                for folder in others:
                    releases = opened.enter_context(open_folder(folder.name, inside=releases))
            except FileNotFoundError:
                if self._root is None:
                    raise
                return frozenset()  # nothing was published there yet
            found = idle(releases, now(releases), IDLE_SECONDS)
            gone = decide(frozenset(name for name in found if RELEASE_HASH.fullmatch(name)))
            for name in found:
                if name in gone:
                    _remove_release(name, releases)
                elif name.startswith("."):
                    remove(name, releases)
        return gone

    def _folders(self) -> list[Path]:
        """Return the folders that are ours, each below the one before it; the last is that of the releases."""
        above = [each for each in self._folder.parents if self._root in each.parents]
        return [*reversed(above), self._folder, self._folder / "releases"]

    def _make_folders(self, root: Path) -> None:
        try:
            if not root.is_dir():
                raise StorageUnavailable(
                    f"There is no folder {root}, which `storage` names.",
                    next_step="Mount it on this machine and on those of the drivers, or correct `storage`.",
                )
            for folder in self._folders():
                make_folder(folder)
        except OSError as error:
            raise StorageUnavailable(
                f"The storage {root} cannot be used now: {error.strerror or error}.",
                next_step="Check that it is mounted, and that this user may write there.",
            ) from error


def _remove_release(name: str, releases: int) -> None:
    # Aside first: no reader shall find a part of a release.
    aside = f".{name}.{uuid.uuid4().hex}"
    try:
        os.rename(name, aside, src_dir_fd=releases, dst_dir_fd=releases)
    except OSError as error:
        log.warning("The release %s cannot be removed: %s", name, error)
    else:
        remove(aside, releases)

"""The manifest of a release that is stored elsewhere than in a folder: what its hash is made of, written last.

A release without it was not published whole. The launcher checks by it what it has fetched, before it imports anything
of it (`runtime.launcher`), and then against the control log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping

from airflow_stream_provider.control.releases import changed, file_names, release_hash
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.runtime.launcher import MANIFEST


def manifest_of(release: Release, files: Mapping[str, bytes]) -> bytes:
    """Return the manifest of a release with these files; the same release gives the same bytes.

    :raises SpecError: a file of the release has the manifest's name.
    """
    if MANIFEST in files:
        raise SpecError(f"A file of the release is named {MANIFEST}.", next_step="Rename it.", name=MANIFEST)
    return json.dumps({"settings": release.settings(), "files": _hashes(files)}, sort_keys=True).encode()


def check_stored(release: Release, where: str, found: Collection[str], read: Callable[[str], bytes]) -> None:
    """Check that a place holds the files of a release as they were published, and nothing else (rule 8).

    :param where: the place, for the message.
    :param found: the names that are there.
    :param read: returns the contents of one of them.
    :raises StreamError: a file is missing, has changed, or does not belong there.
    """
    names = {*file_names(release), MANIFEST}
    problems = [f"{name} is missing" for name in sorted(names - set(found))]
    problems += [f"{name!r} does not belong there" for name in sorted(set(found) - names)]
    if not problems:
        files = {name: read(name) for name in sorted(names - {MANIFEST})}
        digest = release_hash(release.settings(), _hashes(files))
        if digest != release.hash:
            problems = [f"their hash is {digest} and was {release.hash}"]
        elif read(MANIFEST) != manifest_of(release, files):
            problems = [f"{MANIFEST} is another one"]
    if problems:
        raise changed(release, where, problems)


def _hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}

"""The manifest of a release that is stored elsewhere than in a folder: what its hash is made of, written last.

A release without it was not published whole. The launcher checks by it what it has fetched, before it imports anything
of it (`runtime.launcher`), and then against the control log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePosixPath

from airflow_stream_provider.control.releases import changed, file_hashes, file_names, release_hash
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.runtime.launcher import MANIFEST

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

"""The YAML files of a watched folder: read in time, and what people are told in common of those that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from airflow_stream_provider.control.bounded import NoAnswer, call
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.folder import read_folder
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import Watched, WatchedFolder, hash_of, watched_folder

# Seconds in which the files must have been read.
READ_SECONDS = 60.0
# When the YAML of more streams than these breaks between two looks, people are told once for all of them.
MAX_BROKEN = 20
# Files that an alert names.
NAMED = 5

T = TypeVar("T")


def read_watched(
    folder: str | Path,
    declared: Callable[[], Mapping[str, Mapping[str, Any]]],
    known: str,
    given_up: Callable[[Sequence[StreamSpec]], Collection[str]],
) -> WatchedFolder:
    """Return what is to be watched of a folder; where that is gone, what was watched of it.

    :param declared: returns the good declarations that the last look knew, by file name; called only when needed, since
        they are large.
    :param known: their hash; see `hash_of`.
    :param given_up: returns those names of streams that no file describes any more which need not be watched; they are
        looked at for the last time.
    :raises SpecError: the folder hangs, or is gone and nothing is known of it.
    """
    path = Path(folder)
    there = _in_time(path.is_dir, folder)
    files = _in_time(partial(read_folder, path), folder) if there or not declared() else []

    def read(before: Mapping[str, Mapping[str, Any]]) -> WatchedFolder:
        return _in_time(partial(watched_folder, path, files, before), folder)

    found = read({})
    if all(file.spec is not None for file in files) and hash_of(found.declared) == known:
        return found
    before = declared()
    found = read(before)
    left = [each.spec for each in found.streams if each.spec.name not in found.dags]
    gone = given_up(left) if left else ()
    if not gone:
        return found
    found = read({key: fields for key, fields in before.items() if fields.get("name") not in gone})
    return replace(found, streams=(*found.streams, *(Watched(each, last=True) for each in left if each.name in gone)))


def told_in_common(broken: Collection[str], before: Mapping[str, bool]) -> dict[str, bool]:
    """Return, by stream whose YAML cannot be used, whether people are told of it in one incident for many.

    That stays so for as long as it cannot be used: else other files that break, or are mended, would make it seem well.

    :param before: what this returned at the look before.
    """
    new = set(broken) - before.keys()
    return {name: before.get(name, len(new) > MAX_BROKEN) for name in sorted(broken)}


def unusable(folder: WatchedFolder, in_common: Mapping[str, bool]) -> tuple[str, int]:
    """Return sentences on the files that no stream's own incident covers, and the number of these files.

    :param in_common: see `told_in_common`.
    """
    broken = [each.problem for each in folder.streams if each.problem and in_common.get(each.spec.name)]
    says = []
    if folder.unknown:
        says.append(f"Their streams are not watched, as nothing is known of them: {_first(folder.unknown)}")
    if broken:
        says.append(f"{len(broken)} streams have a YAML that cannot be used: {_first(broken)}")
    return " ".join(says), len(folder.unknown) + len(broken)


def _in_time(read: Callable[[], T], folder: str | Path) -> T:
    """Return what reading a folder returns or raises; where its mount hangs, a SpecError after READ_SECONDS."""
    try:
        return call(read, READ_SECONDS, "The folder")
    except NoAnswer:
        raise SpecError(
            f"The YAML files in {folder} could not be read within {READ_SECONDS:.0f} s.",
            next_step="Look at the mount of this folder on the worker.",
            folder=str(folder),
        ) from None


def _first(problems: Sequence[str]) -> str:
    more = f" And {len(problems) - NAMED} more." if len(problems) > NAMED else ""
    return " ".join(problems[:NAMED]) + more

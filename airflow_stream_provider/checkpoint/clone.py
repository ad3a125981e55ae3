"""Clone a checkpoint for a rehearsal, also while its query runs; the original is only read.

A plan rehearsal needs the logs and what describes the state, a few kilobytes whatever the state's size. A warm one
needs the state of one batch too. Both get a query id of their own, so that nothing takes the clone for the original.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from airflow_stream_provider.checkpoint.location import local_path
from airflow_stream_provider.checkpoint.logs import numbers, unreadable
from airflow_stream_provider.checkpoint.state import state_files
from airflow_stream_provider.model.errors import CheckpointError

# Each retry follows a commit of the live query that purged what was about to be copied.
ATTEMPTS = 5


class StateTooLarge(CheckpointError):
    """The state is larger than a warm rehearsal may copy; `fields` say how large and what the limit is."""


@dataclass(frozen=True)
class Clone:
    """A clone: the batch a query started on it runs next, and its size.

    :param next_batch: with the last commit dropped this is the batch of that commit, with its recorded offsets.
    :param bytes: what was copied.
    """

    path: str
    next_batch: int
    bytes: int


def clone_logs(
    location: str | os.PathLike[str], target: str | os.PathLike[str], new_id: str, drop_last_commit: bool = True
) -> Clone:
    """Clone what Spark plans a batch from, without any state.

    :param target: a folder that does not exist or is empty.
    :param new_id: the clone's query id.
    :param drop_last_commit: make Spark plan the last committed batch again with its recorded offsets. Otherwise it
        waits for new data, and while there is none it checks nothing.
    :raises CheckpointError: there is nothing to clone, the target is in use, or the files vanish too fast.
    """
    return _clone(location, target, new_id, drop_last_commit, None)


def clone_state(
    location: str | os.PathLike[str],
    target: str | os.PathLike[str],
    new_id: str,
    limit_bytes: int,
    drop_last_commit: bool = False,
) -> Clone:
    """Clone a checkpoint with the state of its last commit, so that a query can run real batches on it.

    :param limit_bytes: largest size of the clone; it is known before the state is copied.
    :param drop_last_commit: take the state from before the last commit, so that there is one batch to run for sure.
    :raises StateTooLarge: it would be larger than the limit; nothing is left at the target.
    :raises CheckpointError: as for `clone_logs`, or state that the last commit needs is not there.
    """
    return _clone(location, target, new_id, drop_last_commit, limit_bytes)


def _clone(
    location: str | os.PathLike[str],
    target: str | os.PathLike[str],
    new_id: str,
    drop_last_commit: bool,
    limit_bytes: int | None,
) -> Clone:
    root, copy = local_path(location), local_path(target)
    if root == copy or root in copy.parents or copy in root.parents:
        raise CheckpointError(
            f"The clone {copy} and the checkpoint {root} lie inside one another.", todo="Clone to another folder."
        )
    try:
        copy.mkdir(parents=True, exist_ok=True)
        if any(copy.iterdir()):
            raise CheckpointError(f"The folder {copy} is not empty.", todo="Clone to a new folder.", path=str(copy))
    except OSError as error:
        raise CheckpointError(
            f"The clone {copy} cannot be made: {error.strerror or error}.", todo="Clone to another folder."
        ) from error
    missing: FileNotFoundError | None = None
    for _ in range(ATTEMPTS):
        try:
            return _attempt(root, copy, new_id, drop_last_commit, limit_bytes)
        except FileNotFoundError as error:  # the live query has moved on and purged what was about to be copied
            missing = error
            _empty(copy)
        except OSError as error:
            _empty(copy)
            raise unreadable(error.filename or root, error) from error
        except BaseException:
            _empty(copy)
            raise
    raise CheckpointError(
        f"The checkpoint {root} cannot be cloned: {missing and missing.filename} is not there.",
        todo="If the query is not purging its files at this moment, the checkpoint is damaged: "
        "stop the stream and restore it from a back-up.",
        path=str(missing and missing.filename),
    ) from missing


def _attempt(root: Path, copy: Path, new_id: str, drop_last_commit: bool, limit_bytes: int | None) -> Clone:
    commits, offsets = numbers(root / "commits"), numbers(root / "offsets")
    committed = sorted(set(commits) & set(offsets))
    if not offsets:
        raise CheckpointError(
            f"The checkpoint {root} has planned no batch yet: there is nothing to rehearse on.",
            todo="Wait for the first batch, or start without a rehearsal.",
            path=str(root),
        )
    # A batch that is planned and not committed is left out: the live query is in it, and its state is half written.
    last = committed[-1] if committed else offsets[0]
    # Spark reads the last offsets, the ones before them, and the last commit.
    logs = [root / "offsets" / str(batch) for batch in offsets if batch <= last][-2:]
    kept = [batch for batch in committed if batch < last or not drop_last_commit][-1:]
    logs += [root / "commits" / str(batch) for batch in kept]
    files = [*logs, *_tree(root / "sources"), *_descriptions(root / "state")]
    next_batch = kept[-1] + 1 if kept else last
    if limit_bytes is not None:
        if next_batch > 0:
            files += state_files(root / "state", next_batch)
        size = sum(file.stat().st_size for file in files)
        if size > limit_bytes:
            raise StateTooLarge(
                f"The state of the checkpoint {root} is {size} bytes, more than the limit of {limit_bytes}.",
                todo="Raise the limit, or rehearse without the state.",
                bytes=size,
                limit=limit_bytes,
            )
    metadata = json.dumps({"id": new_id}, separators=(",", ":"))
    (copy / "metadata").write_text(metadata, "utf-8")  # without the .crc of the old one
    return Clone(str(copy), next_batch, len(metadata) + sum(_copy(file, root, copy) for file in files))


def _descriptions(state: Path) -> Iterable[Path]:
    """Yield the files that describe the state and hold none of it: Spark compares plans with them."""
    for number in numbers(state):
        operator = state / str(number)
        yield from _tree(operator / "_metadata")
        yield from _tree(operator / "_stateSchema")
        # Schemas are kept beside the data, but only in the first partition, and there per store.
        for folder, folders, _ in os.walk(operator / "0"):
            if "_metadata" in folders:
                yield from _tree(Path(folder, "_metadata"))
            folders[:] = [name for name in folders if name not in ("_metadata", "SSTs")]


def _tree(folder: Path) -> Iterable[Path]:
    for parent, _, names in os.walk(folder):
        # Hidden files follow the file they check; hidden temporary ones are not wanted.
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _copy(file: Path, root: Path, copy: Path) -> int:
    to = copy / file.relative_to(root)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    size = to.stat().st_size
    # Hadoop's checksum; a file without one is read unchecked.
    hidden = file.with_name(f".{file.name}.crc")
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(hidden, to.with_name(hidden.name))
        size += to.with_name(hidden.name).stat().st_size
    return size


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()

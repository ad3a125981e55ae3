"""Clone a checkpoint for a rehearsal, also while its query runs; the original is only read.

A plan rehearsal needs the logs and what describes the state, a few kilobytes whatever the state's size. A warm one
needs the state of one batch too. Both get a query id of their own, so that nothing takes the clone for the original.

Spark 4.0 and later compare state schemas while they plan. Spark 3.5 does so on the executors, when it loads state:
there a plan rehearsal sees no change of state, only a warm one on `clone_state` does.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_stream_provider.checkpoint.location import local_path
from airflow_stream_provider.checkpoint.logs import kafka_offsets, numeric_names, read_offsets
from airflow_stream_provider.checkpoint.state import state_files
from airflow_stream_provider.lifecycle.errors import CheckpointError

# Each retry follows a commit of the live query that purged what was about to be copied.
ATTEMPTS = 5


class StateTooLarge(CheckpointError):
    """The state is larger than a warm rehearsal may copy; `fields` say how large (`bytes`) and the `limit`."""


@dataclass(frozen=True)
class Clone:
    """A clone: the batch that a query started on it runs next, and its size.

    :param next_batch: with the last commit dropped this is the batch of that commit, with its recorded offsets.
    :param bytes: what was written, hidden checksum files left aside.
    """

    path: str
    next_batch: int
    bytes: int


@dataclass(frozen=True)
class _Plan:
    """What goes into a clone: files to copy, and files to write, each by its path below the checkpoint."""

    next_batch: int
    files: Iterable[Path] = ()
    written: Mapping[str, bytes] = field(default_factory=dict)


def clone_logs(
    location: str | os.PathLike[str], target: str | os.PathLike[str], new_id: str, drop_last_commit: bool = True
) -> Clone:
    """Clone what Spark plans a batch from, without any state.

    :param target: a folder that does not exist or is empty.
    :param new_id: the clone's query id.
    :param drop_last_commit: make Spark plan the last committed batch again, with its recorded offsets. Otherwise it
        waits for new data, and while there is none it checks nothing.
    :raises CheckpointError: there is nothing to clone, the target is in use, or the files vanish too fast.
    """
    return _clone(location, target, new_id, lambda root: _logs(root, drop_last_commit))


def clone_state(
    location: str | os.PathLike[str],
    target: str | os.PathLike[str],
    new_id: str,
    limit_bytes: int,
    drop_last_commit: bool = False,
) -> Clone:
    """Clone a checkpoint with the state of its last commit, so that a query can run real batches on it.

    :param limit_bytes: largest size of the clone; its size is known before anything is copied.
    :param drop_last_commit: take the state from before the last commit, so that there is one batch to run for sure.
    :raises StateTooLarge: it would be larger than the limit; nothing is left at the target.
    :raises CheckpointError: as for `clone_logs`, or state that the last commit needs is not there.
    """

    def plan(root: Path) -> _Plan:
        logs = _logs(root, drop_last_commit)
        # The state of version v is what batch v starts from.
        state = state_files(root / "state", logs.next_batch) if logs.next_batch else []
        files = [*logs.files, *state]
        size = sum(file.stat().st_size for file in files)
        if size > limit_bytes:
            raise StateTooLarge(
                f"The state of the checkpoint {root} is {size} bytes, more than the limit of {limit_bytes}.",
                next_step="Raise the limit, or rehearse without the state.",
                bytes=size,
                limit=limit_bytes,
            )
        return _Plan(logs.next_batch, files)

    return _clone(location, target, new_id, plan)


def scratch(location: str | os.PathLike[str], target: str | os.PathLike[str], new_id: str) -> Clone:
    """Make a checkpoint without batches or state that reads Kafka from where the last committed batch began.

    For a warm rehearsal where the state is too large to clone: the batches are real, the aggregates start at nothing.
    Sources other than Kafka start as the query says.

    :raises CheckpointError: as for `clone_logs`.
    """
    return _clone(location, target, new_id, _starting_points)


def _logs(root: Path, drop_last_commit: bool) -> _Plan:
    committed, offsets = _batches(root)
    if not offsets:
        raise CheckpointError(
            f"The checkpoint {root} has planned no batch yet: there is nothing to rehearse on.",
            next_step="Wait for its first batch, or start without a rehearsal.",
            path=str(root),
        )
    # A batch that is planned and not committed is left out: the live query is in it, and its state is half written.
    last = committed[-1] if committed else offsets[0]
    # Spark reads the last offsets, the ones before them, and the last commit.
    ends = [batch for batch in offsets if batch <= last][-2:]
    kept = [batch for batch in committed if batch < last or not drop_last_commit][-1:]
    files = [root / "offsets" / str(batch) for batch in ends] + [root / "commits" / str(batch) for batch in kept]
    files += [*_tree(root / "sources"), *_descriptions(root / "state")]
    return _Plan(kept[-1] + 1 if kept else last, files)


def _starting_points(root: Path) -> _Plan:
    start = _batches(root)[0][-2:-1]
    if not start:  # the first batch: its start is in sources/ already
        return _Plan(0, [path for path in _tree(root / "sources") if path.name == "0"])
    entry = read_offsets(root / "offsets" / str(start[0]))
    # Where Kafka's source starts when there are no offsets yet; the zero byte is for Spark 2.1 (SPARK-19517).
    return _Plan(
        0,
        written={
            f"sources/{name}/0": b"\0v1\n" + text.encode()
            for name, text in entry.sources.items()
            if text is not None and kafka_offsets(text) is not None
        },
    )


def _batches(root: Path) -> tuple[list[int], list[int]]:
    """Return the committed batches and the planned ones."""
    commits = numeric_names(root / "commits")
    offsets = numeric_names(root / "offsets")  # second: a batch that is committed meanwhile must not lack its offsets
    return sorted(set(commits) & set(offsets)), offsets


def _clone(
    location: str | os.PathLike[str],
    target: str | os.PathLike[str],
    new_id: str,
    plan: Callable[[Path], _Plan],
) -> Clone:
    root, copy = local_path(location), local_path(target)
    if root == copy or root in copy.parents or copy in root.parents:
        raise CheckpointError(
            f"The clone {copy} and the checkpoint {root} lie inside one another.", next_step="Clone to another folder."
        )
    missing: FileNotFoundError | None = None
    try:
        copy.mkdir(parents=True, exist_ok=True)
        if any(copy.iterdir()):
            raise CheckpointError(
                f"The folder {copy} is not empty.", next_step="Clone to a new folder.", path=str(copy)
            )
        for _ in range(ATTEMPTS):
            try:
                return _fill(copy, root, new_id, plan(root))
            except FileNotFoundError as error:  # the live query has moved on and purged what was to be copied
                missing = error
                _empty(copy)
            except BaseException:
                _empty(copy)
                raise
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {root} cannot be cloned to {copy}: {error}.",
            next_step="Check access to both folders and the space left.",
            path=str(root),
        ) from error
    assert missing is not None
    raise CheckpointError(
        f"The checkpoint {root} cannot be cloned: {missing.filename} is not there.",
        next_step="Try again if its query is purging files at this moment; else the checkpoint is damaged: "
        "stop the stream and restore it from a back-up.",
        path=str(missing.filename),
    ) from missing


def _fill(copy: Path, root: Path, new_id: str, plan: _Plan) -> Clone:
    size = sum(_copy(file, copy / file.relative_to(root)) for file in plan.files)
    identity = json.dumps({"id": new_id}, separators=(",", ":")).encode()
    for name, content in {**plan.written, "metadata": identity}.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        size += (copy / name).write_bytes(content)
    return Clone(str(copy), plan.next_batch, size)


def _copy(file: Path, to: Path) -> int:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    # Hadoop's checksum, so that a rehearsal finds a damaged file; a file without one is read unchecked.
    hidden = f".{file.name}.crc"
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(file.with_name(hidden), to.with_name(hidden))
    return to.stat().st_size


def _descriptions(state: Path) -> Iterable[Path]:
    """Yield the files that describe the state and hold none of it: Spark compares plans with them."""
    for number in numeric_names(state):
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
        # Hidden checksum files come along with what they check; hidden temporary ones are not wanted.
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()

"""Clone a checkpoint for a rehearsal. The original is only read, and its query may run meanwhile.

A plan rehearsal needs the logs and the description of the state: a few kilobytes, however large the state is. A warm
rehearsal also needs the state of one batch. Every clone gets a query id of its own, so it cannot be taken for the
original.

A clone is for its user only (mode 0700, where the storage knows users), since it holds copies of the state.

Spark 4.0 and later compare state schemas when they plan a batch. Spark 3.5 compares them on the executors, when they
load state. So on Spark 3.5 a plan rehearsal does not find a change of the state schema; a warm rehearsal on the result
of `clone_state` does.
"""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import boundary, kafka_offsets, numeric_names, read_offsets, text
from airflow_stream_provider.checkpoint.whole import state_files
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.ids import INCARNATION

# By source, as the offsets log names it, topic and partition: the first offset of a batch, and the one after its last.
Ranges = Mapping[tuple[str, str, int], tuple[int, int]]

# Tries. One fails only if the live query commits and purges files while they are copied.
ATTEMPTS = 5
# Between the names of a checkpoint and of the incarnation that rehearses on clones of it.
REHEARSAL = ".rehearsal-"


log = logging.getLogger(__name__)


class StateTooLarge(CheckpointError):
    """The state is larger than the limit. `fields` has its size (`bytes`) and the `limit`, both in bytes."""


@dataclass(frozen=True)
class Clone:
    """A clone of a checkpoint.

    :param path: folder of the clone.
    :param next_batch: the batch that a query started on the clone runs next. If the last commit was dropped, this is
        the batch of that commit, with its recorded offsets.
    :param bytes: size of the clone in bytes, without hidden checksum files.
    """

    path: str
    next_batch: int
    bytes: int


@dataclass(frozen=True)
class _Plan:
    """The contents of a clone.

    :param next_batch: see `Clone`.
    :param files: files of the original to copy.
    :param written: contents of files to write, by path below the checkpoint.
    """

    next_batch: int
    files: Iterable[Place] = ()
    written: Mapping[str, bytes] = field(default_factory=dict)


def clone_logs(location: Location, target: Location, new_id: str, drop_last_commit: bool = True) -> Clone:
    """Clone the files from which Spark plans a batch, without state.

    :param location: the checkpoint.
    :param target: folder for the clone; it must be empty or not exist.
    :param new_id: query id of the clone.
    :param drop_last_commit: leave out the last commit, so that Spark plans that batch again with its recorded offsets;
        default True. Otherwise Spark waits for new data, and checks nothing before there is some.
    :raises CheckpointError: the checkpoint has no batch yet, the target is in use, or the files are purged faster than
        they can be copied.
    """
    return _clone(location, target, new_id, lambda root: _logs(root, drop_last_commit))


def clone_state(
    location: Location,
    target: Location,
    new_id: str,
    limit_bytes: int,
    drop_last_commit: bool = False,
    at: int | None = None,
) -> Clone:
    """Clone a checkpoint with the state of its last commit, so that a query can run real batches on the clone.

    :param location: the checkpoint.
    :param target: folder for the clone; it must be empty or not exist.
    :param new_id: query id of the clone.
    :param limit_bytes: largest size of the clone, in bytes. It is checked before anything is copied.
    :param drop_last_commit: leave out the last commit and take the state before it, so that there is always a batch to
        run; default False.
    :param at: the committed batch that counts as the last one; default: the last one.
    :raises StateTooLarge: the clone would be larger than the limit. Nothing is left at the target.
    :raises CheckpointError: as `clone_logs`, or state files of the last commit are missing.
    """

    return _clone(
        location, target, new_id, lambda root: _with_state(root, _logs(root, drop_last_commit, at), limit_bytes)
    )


def planned_ranges(location: Location) -> tuple[int, Ranges] | None:
    """Return the batch that is planned and not committed, and what it reads from Kafka; None: there is none.

    :raises CheckpointError: the logs cannot be read.
    """
    root, ends = locate(location), boundary(location)
    if ends.completed or ends.offsets is None:
        return None
    found: dict[tuple[str, str, int], tuple[int, int]] = {}
    for name, value in read_offsets(root / "offsets" / str(ends.offsets)).sources.items():
        to = kafka_offsets(value)
        since = kafka_offsets(_begin(root, ends.offsets, name)) if to is not None else None
        for topic, partitions in (to or {}).items():
            for partition, end in partitions.items():
                found[name, topic, partition] = ((since or {}).get(topic, {}).get(partition, 0), end)
    return ends.offsets, found


def clone_range(
    location: Location, target: Location, new_id: str, limit_bytes: int, batch: int, ranges: Ranges
) -> Clone:
    """Clone a checkpoint as `clone_state` does, so that the batch that is planned reads these records alone.

    :param batch: its number.
    :param ranges: of every partition in `planned_ranges`; an empty range ends where it begins.
    :raises CheckpointError: as `clone_state`, or that batch is planned no more: its query got on.
    """

    def plan(root: Place) -> _Plan:
        logs = _with_state(root, _logs(root, False), limit_bytes)
        if logs.next_batch != batch or batch not in numeric_names(root / "offsets"):
            raise CheckpointError(
                f"Batch {batch} of {root} is not the one that is to be run any more.",
                next_step="Its query has got on: look again.",
            )
        written = {f"offsets/{batch}": _narrowed(root / "offsets" / str(batch), ranges, 1)}
        if batch:
            written[f"offsets/{batch - 1}"] = _narrowed(root / "offsets" / str(batch - 1), ranges, 0)
        for name in () if batch else {name for name, _, _ in ranges}:
            head = files_of(root).read(root / "sources" / name / "0").rpartition(b"\n")[0]
            written[f"sources/{name}/0"] = head + b"\n" + _as_json(name, ranges, 0).encode()
        replaced = {root / name for name in written}
        return _Plan(batch, [each for each in logs.files if each not in replaced], written)

    return _clone(location, target, new_id, plan)


def _with_state(root: Place, logs: _Plan, limit_bytes: int) -> _Plan:
    # Batch v starts from version v of the state.
    state = state_files(root / "state", logs.next_batch) if logs.next_batch else []
    files = [*logs.files, *state]
    size = _size(files)
    if size > limit_bytes:
        raise StateTooLarge(
            f"The state of the checkpoint {root} is {size} bytes, more than the limit of {limit_bytes}.",
            next_step="Raise the limit, or rehearse without the state.",
            bytes=size,
            limit=limit_bytes,
        )
    return _Plan(logs.next_batch, files)


def _begin(root: Place, batch: int, source: str) -> str | None:
    """The JSON of where a source begins in a batch; None: it has none."""
    if batch:
        return read_offsets(root / "offsets" / str(batch - 1)).sources.get(source)
    return text(root / "sources" / source / "0").rpartition("\n")[2]


def _narrowed(path: Place, ranges: Ranges, end: int) -> bytes:
    """Return an offsets file with the first offsets of these ranges (0), or the last ones (1); the rest stays."""
    entry, head = read_offsets(path), text(path).split("\n")[:2]
    kafka = {name for name, _, _ in ranges}
    lines = []
    for name, value in entry.sources.items():
        line = _as_json(name, ranges, end) if name in kafka else "-" if value is None else value
        lines.append(line if entry.version == 1 else f"{name}:{line}")
    return "\n".join([*head, *lines]).encode()


def _as_json(source: str, ranges: Ranges, end: int) -> str:
    found: dict[str, dict[str, int]] = {}
    for (name, topic, partition), ends in ranges.items():
        if name == source:
            found.setdefault(topic, {})[str(partition)] = ends[end]
    return json.dumps(found, separators=(",", ":"))


def rehearsal_folder(location: Location, incarnation: str) -> Place:
    """Return the folder beside a checkpoint in which an incarnation keeps its clones while it rehearses."""
    root = locate(location)
    return root.with_name(f"{root.name}{REHEARSAL}{incarnation}")


def rehearsal_folders(location: Location) -> dict[str, Place]:
    """Return the folders with clones of rehearsals that are beside a checkpoint now, by incarnation."""
    root = locate(location)
    start = f"{root.name}{REHEARSAL}"
    try:
        names = files_of(root).names(root.parent, large=True)
    except OSError:
        return {}  # nothing was ever cloned there, or `check_location` says why
    found = {name[len(start) :]: root.with_name(name) for name in names if name.startswith(start)}
    return {incarnation: folder for incarnation, folder in found.items() if INCARNATION.fullmatch(incarnation)}


def remove_clones(folder: Place) -> None:
    """Remove a folder with clones; what cannot be removed is left to the next sweep."""
    try:
        files_of(folder).remove(folder)
    except OSError as error:
        log.warning("The clones in %s cannot be removed: %s", folder, error.strerror or error)


def scratch(location: Location, target: Location, new_id: str, at: int | None = None) -> Clone:
    """Create a checkpoint without batches or state that reads Kafka from the start of the last committed batch.

    It is for a warm rehearsal if the state is too large to clone: the batches are real, but aggregates start empty.
    Sources other than Kafka start as the query defines.

    :param location: the checkpoint to take the offsets from.
    :param target: folder for the new checkpoint; it must be empty or not exist.
    :param new_id: query id of the new checkpoint.
    :param at: as of `clone_state`.
    :raises CheckpointError: as `clone_logs`.
    """
    return _clone(location, target, new_id, lambda root: _starting_points(root, at))


def _logs(root: Place, drop_last_commit: bool, at: int | None = None) -> _Plan:
    committed, offsets = _batches(root, at)
    if not offsets:
        raise CheckpointError(
            f"The checkpoint {root} has no batch yet, so nothing can be rehearsed on it.",
            next_step="Wait for the first batch, or start without a rehearsal.",
            path=str(root),
        )
    # Without the batch that the live query is running: its state is only partly written.
    last = committed[-1] if committed else offsets[0]
    # Spark reads the last two offsets files and the last commit. Where one of the two is missing it refuses to start,
    # so the clone does not begin earlier, where it could.
    ends = [batch for batch in (last - 1, last) if batch >= 0]
    for batch in (offsets[-1] - 1, *ends):
        if batch >= 0 and batch not in offsets:
            raise FileNotFoundError(errno.ENOENT, "Spark reads it", str(root / "offsets" / str(batch)))
    kept = [batch for batch in committed if batch < last or not drop_last_commit][-1:]
    files = [root / "offsets" / str(batch) for batch in ends] + [root / "commits" / str(batch) for batch in kept]
    files += [*_tree(root / "sources"), *_descriptions(root / "state")]
    return _Plan(kept[-1] + 1 if kept else last, files)


def _starting_points(root: Place, at: int | None) -> _Plan:
    start = _batches(root, at)[0][-2:-1]
    if not start:  # before the first batch its starting offsets are in sources/
        return _Plan(0, [path for path in _tree(root / "sources") if path.name == "0"])
    entry = read_offsets(root / "offsets" / str(start[0]))
    # From this file Kafka's source starts if there are no offsets. The zero byte is for Spark 2.1 (SPARK-19517).
    return _Plan(
        0,
        written={
            f"sources/{name}/0": b"\0v1\n" + text.encode()
            for name, text in entry.sources.items()
            if text is not None and kafka_offsets(text) is not None
        },
    )


def _batches(root: Place, at: int | None = None) -> tuple[list[int], list[int]]:
    """Return the ids of the committed batches and of the planned ones.

    :param at: the last one of both; default: all of them.
    """
    commits = numeric_names(root / "commits")
    offsets = numeric_names(root / "offsets")  # after the commits, so that each commit has its offsets
    offsets = [batch for batch in offsets if at is None or batch <= at]
    return sorted(set(commits) & set(offsets)), offsets


def _clone(
    location: Location,
    target: Location,
    new_id: str,
    plan: Callable[[Place], _Plan],
) -> Clone:
    root, copy = locate(location), locate(target)
    if root == copy or root in copy.parents or copy in root.parents:
        raise CheckpointError(
            f"The clone {copy} and the checkpoint {root} are inside each other.", next_step="Clone to another folder."
        )
    missing: FileNotFoundError | None = None
    try:
        files_of(copy).make_private(copy)
        if files_of(copy).names(copy):
            raise CheckpointError(
                f"The folder {copy} is not empty.", next_step="Clone to a new folder.", path=str(copy)
            )
        for _ in range(ATTEMPTS):
            try:
                return _fill(copy, root, new_id, plan(root))
            except FileNotFoundError as error:  # purged by the live query
                missing = error
                _empty(copy)
            except BaseException:
                _empty(copy)
                raise
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {root} cannot be cloned to {copy}: {error}.",
            next_step="Check the access rights to both folders, and the free space.",
            path=str(root),
        ) from error
    assert missing is not None
    raise CheckpointError(
        f"The checkpoint {root} cannot be cloned: {missing.filename} does not exist.",
        next_step="Try again, because its query may be purging files now. If that does not help, the checkpoint is "
        "damaged: stop the stream and restore the checkpoint from a back-up.",
        path=str(missing.filename),
    ) from missing


def _fill(copy: Place, root: Place, new_id: str, plan: _Plan) -> Clone:
    files = files_of(copy)
    size = files.copy(root, plan.files, copy)
    identity = json.dumps({"id": new_id}, separators=(",", ":")).encode()
    for name, content in {**plan.written, "metadata": identity}.items():
        files.write(copy / name, content)
        size += len(content)
    return Clone(str(copy), plan.next_batch, size)


def _descriptions(state: Place) -> Iterable[Place]:
    """Yield the files that describe the state but hold none of it. Spark compares the plan with them."""
    for number in numeric_names(state):
        operator = state / str(number)
        yield from _tree(operator / "_metadata")
        yield from _tree(operator / "_stateSchema")
        # Schemas are beside the data of the first partition, one per store.
        for folder, names in files_of(state).walk(operator / "0", skip=("SSTs",)):
            if "_metadata" in folder.parts[len(operator.parts) :]:
                yield from (folder / name for name in names if not name.startswith("."))


def _tree(folder: Place) -> Iterable[Place]:
    for parent, names in files_of(folder).walk(folder):
        # Hidden checksum files are copied with their file; hidden temporary files are left out.
        yield from (parent / name for name in names if not name.startswith("."))


def _size(files: Sequence[Place]) -> int:
    size = 0
    for file, facts in zip(files, files_of(files[0]).facts(files) if files else ()):
        if facts is None:
            raise FileNotFoundError(errno.ENOENT, "purged meanwhile", str(file))
        size += facts.size
    return size


def _empty(folder: Place) -> None:
    files_of(folder).remove(folder)
    files_of(folder).make_private(folder)

"""Check that a checkpoint is whole: that a driver which starts on it finds everything that Spark reads then.

The holder need not notice what is missing: its offsets and its state are in memory.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence

from airflow_stream_provider.checkpoint.files import Place, RemotePath
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import LogEnds, boundary, check_commit, numeric_names, read_offsets
from airflow_stream_provider.checkpoint.read import query_id, read
from airflow_stream_provider.checkpoint.state import state_files
from airflow_stream_provider.lifecycle.errors import CheckpointBroken, CheckpointError

# Tries. One fails only if the live query commits and purges files in between.
ATTEMPTS = 10
# Hadoop's hidden checksum file of a local file (ChecksumFileSystem): magic, bytes for each checksum, then the CRC-32 of
# each such part of the file.
_MAGIC = b"crc\0"
_HEADER = struct.Struct(">4si")


def check_whole(location: Location) -> LogEnds:
    """Check the logs, the state of the last commit, and the checksums of what is small; return the ends of both logs.

    A checkpoint without a batch is whole. Contents of state are left to Spark: a rehearsal loads them; of local files
    the length is compared with that of their checksums. Reads only; the query may run meanwhile.

    :raises CheckpointError: something is missing or damaged, and the message names it; or as `read`.
    """
    root = locate(location)
    missing: FileNotFoundError | None = None
    for _ in range(ATTEMPTS):
        ends = boundary(root)
        if ends.offsets is None and ends.commit is None:
            return ends
        try:
            _check_logs(root, ends)
            _check_state(root, ends)
            return ends
        except FileNotFoundError as error:  # purged since the listing, or never there
            missing = error
        except CheckpointError:
            if boundary(root) == ends:  # else a live query has gone on, and what was listed before may be purged
                raise
    if missing is None:
        raise CheckpointError(
            f"The batches of the checkpoint {root} follow each other faster than it can be looked at.",
            next_step="Try again. If that does not help, give the query a trigger that is not as fast.",
            path=str(root),
        )
    raise _broken(root, f"{missing.filename} is missing") from missing


def _check_logs(root: Place, ends: LogEnds) -> None:
    offsets = numeric_names(root / "offsets")
    newest, last = ends.offsets, ends.commit
    if newest is None or (last is not None and last > newest):
        raise _broken(root, f"batch {last} is in commits/, and offsets/ ends at {newest}")
    before = newest - 1
    if newest > 0 and before not in offsets:
        raise _broken(root, f"offsets/{newest} is there, and offsets/{before}, which Spark reads with it, is missing")
    if last is None and newest > 0:
        raise _broken(root, f"offsets/ has batch {newest}, and commits/ is empty")
    if last is not None and last not in (newest, before):
        raise _broken(
            root,
            f"batches {last} to {newest} are in offsets/, and only {last} in commits/: those between would be lost",
        )
    if last is not None and last not in offsets:
        raise _broken(root, f"batch {last} is in commits/, and not in offsets/")
    if query_id(root) is None:
        raise _broken(root, "its file metadata, which has the id of the query, is missing")
    read_ones = [root / "offsets" / str(batch) for batch in (before, newest) if batch >= 0]
    for path in read_ones:
        read_offsets(path)
    if last is not None:
        check_commit(root / "commits" / str(last))
        read_ones.append(root / "commits" / str(last))
    if not isinstance(root, RemotePath):
        for path in (root / "metadata", *read_ones):
            _check_sums(path)


def _check_state(root: Place, ends: LogEnds) -> None:
    if ends.commit is None:
        return
    state = root / "state"
    needed = state_files(state, ends.commit + 1)
    there: dict[str, set[str]] = {}
    depth = len(state.parts)
    for path in needed:
        operator, partition = path.parts[depth : depth + 2]
        there.setdefault(operator, set()).add(partition)
    for each in read(root).operators:
        here = there.get(str(each.id), set())
        lacking = {str(number) for number in range(each.partitions)} - here
        # An aggregate or a limit over everything has one partition, however many Spark has noted.
        if lacking and here != {"0"}:
            where = f"state/{each.id}/{min(lacking, key=int)}"
            raise _broken(
                root, f"{where} has no state of {each.name or 'an operator'} of the last commit, {ends.commit}"
            )
    _check_there(root, needed)


def _check_there(root: Place, needed: Sequence[Place]) -> None:
    files = files_of(root)
    for path, found in zip(needed, files.facts(needed) if needed else ()):
        if found is None:
            raise FileNotFoundError(2, "it is missing", str(path))
    if isinstance(root, RemotePath):
        return
    sums = [path.with_name(f".{path.name}.crc") for path in needed]
    part = 0
    for path, here, beside in zip(needed, files.facts(needed), files.facts(sums)):
        if here is None or beside is None:
            continue
        if not part:  # all are written with one setting, and there may be thousands
            with files.open(path.with_name(f".{path.name}.crc")) as file:
                part = _part(path, file.read(_HEADER.size))
        if beside.size != _HEADER.size + 4 * math.ceil(here.size / part):
            raise _broken(root, f"{path} has {here.size} bytes, and checksums of another length: it was cut off")


def _check_sums(path: Place) -> None:
    files = files_of(path)
    try:
        sums = files.read(path.with_name(f".{path.name}.crc"))
    except FileNotFoundError:
        return
    data = files.read(path)
    part = _part(path, sums[: _HEADER.size])
    parts = [data[start : start + part] for start in range(0, len(data), part)]
    if sums[_HEADER.size :] != b"".join(struct.pack(">I", zlib.crc32(each)) for each in parts):
        raise _broken(path, "it has other contents than its hidden checksum file says")


def _part(path: Place, header: bytes) -> int:
    magic, part = _HEADER.unpack(header) if len(header) == _HEADER.size else (b"", 0)
    if magic != _MAGIC or part <= 0:
        raise _broken(path, f"its hidden checksum file .{path.name}.crc is damaged")
    return int(part)


def _broken(place: Place, found: str) -> CheckpointBroken:
    return CheckpointBroken(
        f"The checkpoint is not whole, so no driver can start on it: {place}: {found}.",
        next_step="Nothing that runs was touched, and what holds the stream has all of it in memory: let it run. Find "
        "out who removes or edits files there, and restore them from a back-up; beside a file that was edited by hand, "
        "remove its hidden .crc file.",
        path=str(place),
    )

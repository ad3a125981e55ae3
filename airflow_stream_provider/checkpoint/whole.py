"""Check that a checkpoint is whole: that a driver which starts on it finds everything that Spark reads then.

A version is one more than the batch that wrote it. A state store, which is a folder, is loaded from its newest base at
or below the version and the changes after it. The files of Spark's two state store providers differ only in their
names:

| provider | base | changes |
|---|---|---|
| HDFS | `<v>.snapshot` | `<v>.delta` |
| RocksDB | `<v>.zip` and the `SSTs/*.sst` it lists | `<v>.changelog`, if switched on |
| RocksDB, checkpoint format 2 | `<v>_<uuid>.zip` | `<v>_<uuid>.changelog` |

The holder need not notice what is missing: its offsets and its state are in memory.

Spark reads every older format, and none that is newer than it knows, or than its settings say: Spark 4.0 without
`stateStore.checkpointFormatVersion` reads no commit of version 2. Most formats Spark itself keeps on a checkpoint that
exists, whatever its settings say (measured with 4.2.0: offsets, encoding and checksums of state rows, codec).
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_stream_provider.checkpoint.files import FileFacts, Place, RemotePath
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import (
    LogEnds,
    boundary,
    check_commit,
    damaged,
    names_of,
    numeric_names,
    read_offsets,
)
from airflow_stream_provider.checkpoint.read import query_id, read
from airflow_stream_provider.lifecycle.errors import CheckpointBroken, CheckpointError

FILE = re.compile(r"(\d+)(_[0-9a-f-]{36})?\.(snapshot|zip|delta|changelog)")
BASES = ("snapshot", "zip")


def state_files(state: Place, version: int) -> list[Place]:
    """Return the files that Spark reads to load all state stores of a checkpoint at a version.

    Files of newer versions are left out, because the live query may be writing them.

    :param state: the checkpoint's folder `state`.
    :raises FileNotFoundError: a file that is needed does not exist, or has been purged.
    :raises CheckpointError: a RocksDB snapshot is damaged.
    """
    found: list[Place] = []
    for operator in numeric_names(state):
        # A folder for each partition, numbered, with a folder for each store where there are several.
        for folder, names in files_of(state).walk(state / str(operator), skip=("_metadata", "_stateSchema", "SSTs")):
            if any(map(FILE.fullmatch, names)):
                found += _store_files(folder, names, version)
    return found


def _store_files(folder: Place, names: list[str], version: int) -> Iterable[Place]:
    parsed = [(int(match[1]), match[3], name) for name in names for match in [FILE.fullmatch(name)] if match]
    base = max((number for number, kind, _ in parsed if kind in BASES and number <= version), default=0)
    changes = [number for number, kind, _ in parsed if kind not in BASES and number <= version]
    if len(changes) > len(set(changes)):
        # With unique names, an interrupted batch that ran again leaves the files of both tries, and a snapshot may
        # belong to the wrong one. Only Spark can tell them apart by their contents, so all are returned.
        base = 0
    else:
        for number in set(range(base + 1, version + 1)) - set(changes):
            raise FileNotFoundError(errno.ENOENT, "state of this version is missing", str(folder / f"{number}.*"))
    here = set(names)
    for number, kind, name in parsed:
        if base <= number <= version and (number > base or kind in BASES):
            yield folder / name
            # Since Spark 4.1, with checkpoint format 2, the checksum file of a state file is not hidden.
            if f"{name}.crc" in here:
                yield folder / f"{name}.crc"
            if kind == "zip":
                yield from _tables(folder / name)


def _tables(snapshot: Place) -> Iterable[Place]:
    """Yield the table files of a RocksDB snapshot; several snapshots share them."""
    try:
        with files_of(snapshot).open(snapshot) as raw, zipfile.ZipFile(raw) as file, file.open("metadata") as metadata:
            lines = metadata.read().decode("utf-8").split("\n")
        names = [str(entry["dfsSstFileName"]) for entry in json.loads(lines[-1] or lines[-2])["sstFiles"]]
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, IndexError) as error:
        raise damaged(snapshot, "it is not a RocksDB snapshot written by Spark") from error
    tables = snapshot.parent / "SSTs"
    here = {*names_of(tables)} if names else set()
    for name in names:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise damaged(snapshot, f"it lists the file {name!r}, which is not beside its other tables")
        yield tables / name
        if f"{name}.crc" in here:
            yield tables / f"{name}.crc"


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
    sums = [path.with_name(f".{path.name}.crc") for path in needed]
    part = 0
    # Only local files have checksums beside them.
    beside_all: list[FileFacts | None] = [None] * len(needed) if isinstance(root, RemotePath) else files.facts(sums)
    for path, here, beside in zip(needed, files.facts(needed), beside_all):
        if here is None:
            raise FileNotFoundError(errno.ENOENT, "it is missing", str(path))
        if beside is None:
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


_STATE = "spark.sql.streaming.stateStore."
# Settings in the offsets file that say how state, or the log itself, is written, with what a Spark does that does not
# know them. Where both files have one, Spark has kept it.
SETTINGS: Mapping[str, str] = {
    f"{_STATE}encodingFormat": "unsaferow",
    f"{_STATE}rowChecksum.enabled": "false",
    f"{_STATE}rocksdb.formatVersion": "5",
    f"{_STATE}rocksdb.mergeOperatorVersion": "1",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
}
# At the beginning of a file, where Java has written the length of the text before it.
_VERSION = re.compile(rb"(?:\0.)?v([0-9]{1,9})", re.DOTALL)
_HEAD = 16


@dataclass(frozen=True)
class Formats:
    """The formats of one checkpoint.

    :param batch: the newest batch in offsets/; None before the first.
    :param versions: by what is written, such as ``commits/``, the version of its format.
    :param settings: those of SETTINGS that are in the newest file of offsets/.
    """

    batch: int | None
    versions: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def formats(location: Location) -> Formats:
    """Read in which formats a checkpoint is written, by its newest files. No driver may write to it meanwhile.

    :raises CheckpointError: a file is damaged, or in a format that is not known.
    :raises OSError: a file cannot be read.
    """
    root = locate(location)
    offsets, commits = numeric_names(root / "offsets"), numeric_names(root / "commits")
    versions, settings = dict(_of_state(root / "state")), {}
    if commits:
        versions["commits/"] = check_commit(root / "commits" / str(commits[-1]))
    if offsets:
        entry = read_offsets(root / "offsets" / str(offsets[-1]))
        versions["offsets/"] = entry.version
        settings = {key: value for key, value in entry.conf.items() if key in SETTINGS}
    return Formats(offsets[-1] if offsets else None, versions, settings)


def one_way(before: Formats, after: Formats) -> list[str]:
    """Return what a release before may not be able to read, a clause each.

    :param before: of a checkpoint before the new release has run on it.
    :param after: of the same after that.
    """
    found = [
        f"{what} in format v{version} instead of v{before.versions[what]}"
        for what, version in after.versions.items()
        if version > before.versions.get(what, version)
    ]
    if before.batch is None:
        return found
    for key, value in after.settings.items():
        was = before.settings.get(key, SETTINGS[key])
        if value != was:
            found.append(f"its files with {key}={value} instead of {was}")
    return found


def _of_state(state: Place) -> Iterable[tuple[str, int]]:
    """Yield the versions of the descriptions of the state, of each operator."""
    for number in numeric_names(state):
        described = state / str(number) / "_metadata"
        # transformWithState keeps a folder of them instead of one file.
        newer = numeric_names(described / "v2")
        version = 2 if newer else _version(described / "metadata")
        schema = _version(state / str(number) / "0" / "_metadata" / "schema")
        for name, found in ((f"state/{number}/_metadata", version), (f"state/{number}/0/_metadata/schema", schema)):
            if found is not None:
                yield name, found


def _version(path: Place) -> int | None:
    try:
        found = _VERSION.match(files_of(path).read(path)[:_HEAD])
    except FileNotFoundError:
        return None
    return int(found[1]) if found else None

"""Find the files of a checkpoint that hold the state at one version.

A version is one more than the batch that wrote it. A state store, which is a folder, is loaded from its newest base at
or below the version and the changes after it. The files of Spark's two state store providers differ only in their
names:

| provider | base | changes |
|---|---|---|
| HDFS | `<v>.snapshot` | `<v>.delta` |
| RocksDB | `<v>.zip` and the `SSTs/*.sst` it lists | `<v>.changelog`, if switched on |
| RocksDB, checkpoint format 2 | `<v>_<uuid>.zip` | `<v>_<uuid>.changelog` |
"""

from __future__ import annotations

import errno
import json
import os
import re
import zipfile
from collections.abc import Iterable

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import files_of
from airflow_stream_provider.checkpoint.logs import damaged, numeric_names

FILE = re.compile(r"(\d+)(_[0-9a-f-]{36})?\.(snapshot|zip|delta|changelog)")
BASES = ("snapshot", "zip")
# Bytes of a snapshot's list of tables, unpacked: about 100 for each table; a store has hundreds at most. A zip of some
# kilobytes could unpack to gigabytes.
METADATA_LIMIT = 16 * 2**20


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
            # Not by the size that the zip says: it need not be true.
            data = metadata.read(METADATA_LIMIT + 1)
        if len(data) > METADATA_LIMIT:
            raise ValueError("its list of tables is too long")
        lines = data.decode("utf-8").split("\n")
        listed = json.loads(lines[-1] or lines[-2])["sstFiles"]
        names = [str(entry["dfsSstFileName"]) for entry in listed]
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, IndexError) as error:
        raise damaged(snapshot, "it is not a RocksDB snapshot written by Spark") from error
    tables = snapshot.parent / "SSTs"
    here = _names(tables) if names else frozenset()
    for name in names:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise damaged(snapshot, f"it lists the file {name!r}, which is not beside its other tables")
        yield tables / name
        if f"{name}.crc" in here:
            yield tables / f"{name}.crc"


def _names(folder: Place) -> frozenset[str]:
    try:
        return frozenset(files_of(folder).names(folder, large=True))
    except FileNotFoundError:
        return frozenset()

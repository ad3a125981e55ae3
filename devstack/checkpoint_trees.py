"""Write checkpoints byte for byte as Spark does."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

CONF = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "HDFSBackedStateStoreProvider",
    "spark.sql.shuffle.partitions": "2",
}
# Bytes for each checksum in Hadoop's hidden files.
SUMMED = 512
QUERY = "0b1c2d3e-0000-4000-8000-000000000001"


def put(path: Path, content: str | bytes, *, checked: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.1a2b.tmp"  # renamed, as Spark does, so that readers see whole files
    data = content.encode() if isinstance(content, str) else content
    temporary.write_bytes(data)
    temporary.rename(path)
    if checked:
        sums = (struct.pack(">I", zlib.crc32(data[at : at + SUMMED])) for at in range(0, len(data), SUMMED))
        temporary.write_bytes(struct.pack(">4si", b"crc\0", SUMMED) + b"".join(sums))
        temporary.rename(path.parent / f".{path.name}.crc")
    return path


def new(root: Path, id: str = QUERY) -> Path:
    put(root / "metadata", json.dumps({"id": id}, separators=(",", ":")))
    return root


def kafka(**topics: Mapping[int, int]) -> str:
    return json.dumps(
        {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in topics.items()},
        separators=(",", ":"),
    )


def plan(root: Path, batch: int, *sources: str, conf: Mapping[str, str] = CONF) -> Path:
    """Write offsets/N in format 1: sources in the order of the plan, "-" without offset, no newline at the end."""
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1795228673093, "conf": conf})
    return put(root / "offsets" / str(batch), "\n".join(["v1", metadata, *sources]))


def plan_v2(root: Path, batch: int, **sources: str) -> Path:
    """Write offsets/N in format 2: sources by name."""
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1795228673093, "conf": CONF})
    named = [f"{name}:{value}" for name, value in sources.items()]
    return put(root / "offsets" / str(batch), "\n".join(["v2", metadata, *named]))


def commit(root: Path, batch: int, *, version: int = 1, at: float | None = None) -> Path:
    path = put(root / "commits" / str(batch), f'v{version}\n{{"nextBatchWatermarkMs":0}}')
    if at is not None:
        os.utime(path, (at, at))
    return path


def start(root: Path, source: str, offsets: str) -> Path:
    """Write the starting offsets of a Kafka source: a zero byte, the version, the offsets."""
    return put(root / "sources" / source / "0", b"\0v1\n" + offsets.encode())


def operator(root: Path, number: int, name: str, partitions: int, *stores: str) -> Path:
    infos = [
        {"storeName": store, "numColsPrefixKey": 0, "numPartitions": partitions} for store in stores or ("default",)
    ]
    value = {"operatorInfo": {"operatorId": number, "operatorName": name}, "stateStoreInfo": infos}
    put(root / "state" / str(number) / "0" / "_metadata" / "schema", "v2\nschema")
    return put(root / "state" / str(number) / "_metadata" / "metadata", f"v1\n{json.dumps(value)}")


def snapshot(folder: Path, name: str, *tables: str) -> Path:
    """Write a RocksDB snapshot: a zip whose `metadata` lists the table files, which snapshots share."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as file:
        listed = [{"localFileName": table[:10], "dfsSstFileName": table, "sizeBytes": 1} for table in tables]
        file.writestr("metadata", "v1\n" + json.dumps({"sstFiles": listed, "numKeys": 1}))
    for table in tables:
        put(folder / "SSTs" / table, "table")
    return folder / name


def names(folder: Path) -> set[str]:
    """Return all files below a folder except hidden ones."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)) for path in files}

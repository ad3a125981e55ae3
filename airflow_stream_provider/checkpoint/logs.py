"""Read the numbered logs of a checkpoint, `offsets/` and `commits/`, and the log of a sink.

Spark's file sink keeps a log in `_spark_metadata`, with a file for each batch, and looks at numbers only. Delta keeps
the last number of each query, by the query's id, in its own log. Both are read as plain files; nothing is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.checkpoint.files import Place, RemotePath
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.lifecycle.errors import CheckpointAway, CheckpointBroken, CheckpointError

# In the conf of the offsets file of a batch whose end was set back (`checkpoint.rewind`): for which deployment. Spark
# takes from that conf only what it has written there itself.
REWOUND = "spark.airflow.stream.rewound"

_VERSION = re.compile(r"v[0-9]{1,9}")


@dataclass(frozen=True)
class LogEnds:
    """The last batch in both logs; None for an empty log.

    :param offsets: the last planned batch.
    :param commit: the last committed batch.
    """

    offsets: int | None
    commit: int | None

    @property
    def completed(self) -> bool:
        """Whether the checkpoint is at a batch boundary: all planned batches are committed."""
        return self.offsets == self.commit


@dataclass(frozen=True)
class OffsetEntry:
    """One file of `offsets/`: the end offsets of each source in one batch.

    :param version: format of the file, 1 or 2.
    :param conf: the Spark conf that Spark applies again when the query restarts.
    :param sources: the source's own JSON of its end offsets, by name of the source; None if it has no offset. In
        format 1 sources have no names, and are numbered "0", "1" and so on in the order of the plan, like the folders
        in `sources/`.
    :param rewound: the deployment for which the offsets were set back after the batch; empty: they were not.
    """

    version: int
    conf: Mapping[str, str]
    sources: Mapping[str, str | None]
    rewound: str = ""


def numeric_names(folder: Place) -> list[int]:
    """Return the names in a folder that are numbers, sorted, such as the batch ids in a log; [] if it does not exist.

    Other names are ignored: Spark keeps hidden files ``.N.crc`` and ``.N.<uuid>.tmp`` in the same folder.

    :raises CheckpointError: the folder exists but cannot be listed.
    """
    try:
        names = files_of(folder).names(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def boundary(location: Location) -> LogEnds:
    """Return the last batch of both logs, from the names of their files only.

    While the query runs, the result is a consistent snapshot of one moment between two commits.

    :raises CheckpointError: the location cannot be used, or its logs cannot be read.
    """
    root = locate(location)
    commits = numeric_names(root / "commits")
    while True:
        offsets = numeric_names(root / "offsets")
        found = LogEnds(offsets[-1] if offsets else None, commits[-1] if commits else None)
        if found.completed:  # its commit was there before, and no batch was planned since
            return found
        again = numeric_names(root / "commits")
        if again[-1:] == commits[-1:]:
            return found
        commits = again


def read_offsets(path: Place) -> OffsetEntry:
    """Read one file of `offsets/`.

    :raises CheckpointError: the file is damaged, or its format is newer than 2.
    :raises FileNotFoundError: the file has been purged; Spark keeps about the last 100.
    """
    version, lines = _read(path, newest=2)
    metadata = _json_object(path, lines[0]) if lines and lines[0].strip() else {}
    conf = metadata.get("conf") or {}
    if not isinstance(conf, dict):
        raise damaged(path, f"its conf is {type(conf).__name__}, not an object")
    if version == 1:
        named = [(str(index), line) for index, line in enumerate(lines[1:])]
    else:
        named = [(name, value) for name, colon, value in (line.partition(":") for line in lines[1:]) if colon]
        if len(named) != len(lines[1:]):
            raise damaged(path, "the line of a source has no name")
    rewound = str(conf.get(REWOUND) or "")
    conf = {key: value for key, value in conf.items() if key != REWOUND}
    return OffsetEntry(version, conf, {name: None if value == "-" else value for name, value in named}, rewound)


def check_commit(path: Place) -> int:
    """Return the format of a file of `commits/`: 1, 2 (state with unique ids) or 3 (named sinks, Spark 4.2 and later).

    :raises CheckpointError: the file is damaged, or its format is newer.
    :raises FileNotFoundError: the file has been purged.
    """
    return _read(path, newest=3)[0]


# For Kafka sources: by topic and partition the next offset to read.
KafkaOffsets = Mapping[str, Mapping[int, int]]


def kafka_offsets(text: str | None) -> dict[str, dict[int, int]] | None:
    """Return the offsets in a Kafka source's JSON; None for any other source.

    :return: {topic: {partition: next offset to read}}.
    """
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(value, dict) or not all(isinstance(partitions, dict) for partitions in value.values()):
        return None
    try:
        return {
            topic: {int(number): _whole(offset) for number, offset in partitions.items()}
            for topic, partitions in value.items()
        }
    except ValueError:
        return None


def damaged(path: Place, found: str) -> CheckpointError:
    """Return the error for a checkpoint file whose content Spark cannot have written.

    :param found: what is wrong with it, for the message.
    """
    return CheckpointBroken(
        f"The checkpoint file {path} is damaged: {found}.",
        next_step="Stop the stream and restore the checkpoint from a back-up. If this is the newest file of offsets/ "
        "and commits/ has no file of that number, it is enough to remove it and its hidden .crc file: Spark then "
        "plans the batch again.",
        path=str(path),
    )


def unreadable(path: Place | str, error: OSError) -> CheckpointError:
    """Return the error for a checkpoint file or folder that its storage refuses to read."""
    remote = isinstance(path, RemotePath) or "://" in str(path)
    return kind_of(error)(
        f"{path} cannot be read: {error.strerror or error}.",
        next_step="Check that the storage is up, and that the driver's user may read there."
        if remote
        else "Check that the checkpoint's storage is mounted here and that this user may read it.",
        path=str(path),
    )


def kind_of(error: OSError) -> type[CheckpointError]:
    """Return the class for a storage's error: rights, and a file in place of a folder, are no matter of time."""
    lasting = (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)
    return CheckpointError if isinstance(error, lasting) else CheckpointAway


def text(path: Place) -> str:
    """Return the text of a file.

    :raises CheckpointError: the file is not UTF-8 text.
    :raises OSError: the file cannot be read, or has been purged (FileNotFoundError).
    """
    try:
        return files_of(path).read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(path, "it is not text") from error


def _read(path: Place, newest: int) -> tuple[int, list[str]]:
    lines = text(path).split("\n")
    first, rest = lines[0].strip(), lines[1:]
    while rest and not rest[-1]:
        rest.pop()
    # Nothing of it is quoted: it may be any file of the machine that a link or a mistake has put there.
    if not _VERSION.fullmatch(first):
        raise damaged(path, "it does not start with a version" if first else "it is empty")
    version = int(first[1:])
    if not 1 <= version <= newest:
        raise CheckpointError(
            f"The checkpoint file {path} has format {first}, but only formats up to v{newest} are supported.",
            next_step="Update airflow-stream-provider.",
            path=str(path),
        )
    return version, rest


def _json_object(path: Place, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise damaged(path, "it has a line that is not JSON") from error
    if not isinstance(value, dict):
        raise damaged(path, "it has a line that is not a JSON object")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)
    return value


# Spark's FileStreamSink.metadataDir.
METADATA = "_spark_metadata"
# Commits of a Delta table that are looked at, the newest first. A query that writes is in one of the last few.
DELTA_COMMITS = 100


@dataclass(frozen=True)
class SinkLog:
    """The memory of a file sink.

    :param newest: the last batch in its log; None: there is no batch.
    :param missing: batches between its last compaction, or the first batch, and the newest one that are not there: the
        next compaction fails at them.
    """

    newest: int | None = None
    missing: tuple[int, ...] = ()


def read_sink_log(target: Location) -> SinkLog:
    """Return what the log in a file sink's folder has; a folder without one has no batch.

    :param target: the folder that the sink writes to.
    :raises CheckpointError: the folder cannot be used, or read.
    """
    folder = locate(target) / METADATA
    named = [name.partition(".") for name in names_of(folder)]
    compacted = [int(number) for number, _, end in named if end == "compact" and number.isdecimal()]
    there = {int(number) for number, dot, _ in named if not dot and number.isdecimal()}.union(compacted)
    if not there:
        return SinkLog()
    newest = max(there)
    needed = range(max(compacted, default=0), newest)
    return SinkLog(newest, tuple(number for number in needed if number not in there))


def delta_batch(table: Location, query: str) -> int | None:
    """Return the last batch of a query that a Delta table knows; None where its last commits do not name the query.

    More than DELTA_COMMITS are not looked at, nor what Delta has written into a checkpoint file of its own.

    :param table: the table's folder.
    :param query: Spark's id of the query, by which Delta's streaming sink goes.
    :raises CheckpointError: the folder cannot be used, or read.
    """
    log = locate(table) / "_delta_log"
    commits = sorted((name for name in names_of(log) if name.endswith(".json")), reverse=True)
    for name in commits[:DELTA_COMMITS]:
        found = [version for app, version in _transactions(log / name) if app == query]
        if found:
            return max(found)
    return None


def _transactions(commit: Place) -> Iterable[tuple[str, int]]:
    try:
        lines = text(commit).splitlines()
    except FileNotFoundError:
        return  # removed since the listing
    except OSError as error:
        raise unreadable(commit, error) from error
    for line in lines:
        if '"txn"' not in line:
            continue
        try:
            action = json.loads(line).get("txn")
            if action:
                yield str(action["appId"]), int(action["version"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(commit, "a line of it is no action of Delta") from error


def names_of(folder: Place) -> list[str]:
    """Return the names in a folder whose length others decide; [] if it does not exist.

    :raises CheckpointError: the folder exists but cannot be listed.
    """
    try:
        return files_of(folder).names(folder, large=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error

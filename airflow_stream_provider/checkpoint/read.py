"""Read a checkpoint into a frozen dataclass. Its query may run meanwhile."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import (
    KafkaOffsets,
    OffsetEntry,
    boundary,
    check_commit,
    damaged,
    kafka_offsets,
    numeric_names,
    read_offsets,
    text,
    unreadable,
)
from airflow_stream_provider.lifecycle.errors import CheckpointError

# Tries. Spark keeps about 100 batches, so a file is purged between listing and reading only in rare cases.
ATTEMPTS = 10


@dataclass(frozen=True)
class Source:
    """One source of the query.

    :param name: its position in the plan ("0", "1") or, with source evolution, its name.
    :param committed: the source's own JSON of its end offsets in the last committed batch; None before the first.
    :param planned: the same for a batch that is planned but not committed.
    :param topics: the committed Kafka offsets; None if the source is not Kafka or has no offsets yet.
    """

    name: str
    committed: str | None
    planned: str | None
    topics: KafkaOffsets | None


@dataclass(frozen=True)
class StatefulOperator:
    """One stateful operator of the query.

    :param id: Spark's number of the operator.
    :param name: Spark's name of the operator; empty with Spark 3.5, which does not store it.
    :param partitions: number of partitions of its state.
    """

    id: int
    name: str
    partitions: int


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint.

    Offsets are the next ones to read, as {topic: {partition: offset}}, of all Kafka sources together.

    :param path: the checkpoint's folder.
    :param id: Spark's id of the query, which stays the same over restarts; None if its file is missing.
    :param last_commit: the last committed batch; None before the first commit.
    :param committed: Kafka offsets of the last committed batch; before the first commit, the starting offsets. A
        partition that is missing was not read yet; Spark reads new partitions from their earliest record.
    :param planned: Kafka offsets of the batch that is planned but not committed, None if there is no such batch.
    :param commits: batch id and time of every commit that is still there, oldest first. The time is that of the file,
        in seconds since 1970.
    :param sources: the sources of the query, in the order of the plan.
    :param operators: the stateful operators of the query.
    :param conf: the Spark conf in the newest offsets file, which Spark applies again on a restart.
    """

    path: str
    id: str | None
    last_commit: int | None
    committed: KafkaOffsets
    planned: KafkaOffsets | None
    commits: tuple[tuple[int, float], ...]
    sources: tuple[Source, ...]
    operators: tuple[StatefulOperator, ...]
    conf: Mapping[str, str]


def read(location: Location) -> Checkpoint:
    """Read a checkpoint, without a JVM and without changing it.

    :raises CheckpointError: there is no checkpoint at the location, one of its files is damaged (the message names
        it), or its files are purged faster than they can be read.
    """
    root = locate(location)
    missing: FileNotFoundError | None = None
    for _ in range(ATTEMPTS):
        try:
            if not any(files_of(root).facts([root / "metadata", root / "offsets"])):
                raise CheckpointError(
                    f"There is no checkpoint at {root}.",
                    next_step="Check the path, and that the query has run before.",
                    location=str(root),
                )
            return _read(root)
        except FileNotFoundError as error:  # purged between the listing and the read
            missing = error
        except OSError as error:
            raise unreadable(error.filename or root, error) from error
    raise CheckpointError(
        f"The files of the checkpoint {root} are removed faster than they can be read.",
        next_step="Check that only its query removes files there.",
        location=str(root),
    ) from missing


def pinned_conf(location: Location) -> dict[str, str]:
    """Return the Spark conf that a restart on this checkpoint keeps, whatever the session says; {} before a batch.

    The format of the state is not in the conf of the offsets file; the version of the last commit's file tells it.

    :raises CheckpointError: a file of the checkpoint is damaged.
    """
    if boundary(location).offsets is None:
        return {}
    found = read(location)
    conf = dict(found.conf)
    if found.last_commit is not None:
        with contextlib.suppress(FileNotFoundError):
            version = check_commit(locate(found.path) / "commits" / str(found.last_commit))
            if version in (1, 2):
                conf["spark.sql.streaming.stateStore.checkpointFormatVersion"] = str(version)
    return conf


def recent(checkpoint: Checkpoint, count: int) -> tuple[tuple[float, KafkaOffsets], ...]:
    """Return the times and Kafka offsets of the last committed batches, oldest first.

    Batches whose offsets file has been purged or never existed are left out, and so are those before the last one whose
    end was set back on purpose (`checkpoint.rewind`): an unwanted step back is to be seen.

    :param count: largest number of batches.
    :return: pairs of time, in seconds since 1970, and offsets.
    :raises CheckpointError: an offsets file is damaged.
    """
    found: list[tuple[float, KafkaOffsets]] = []
    for batch, at in reversed(checkpoint.commits):
        if len(found) == count:
            break
        path = locate(checkpoint.path) / "offsets" / str(batch)
        try:
            entry = read_offsets(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise unreadable(path, error) from error
        found.append((at, merged(kafka_offsets(source) for source in entry.sources.values())))
        if entry.rewound:
            break
    return tuple(reversed(found))


def merged(parts: Iterable[KafkaOffsets | None]) -> KafkaOffsets:
    """Merge the offsets of several sources. For a partition that several of them read, the smallest offset counts."""
    joined: dict[str, dict[int, int]] = {}
    for part in parts:
        for topic, partitions in (part or {}).items():
            known = joined.setdefault(topic, {})
            for number, offset in partitions.items():
                known[number] = min(offset, known.get(number, offset))
    return joined


def query_id(root: Place) -> str | None:
    """Return Spark's id of the query, None if its file is missing.

    :param root: the checkpoint's folder.
    :raises CheckpointError: the file is damaged.
    """
    path = root / "metadata"
    try:
        value = json.loads(files_of(path).read(path))
        return str(value["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, "it does not contain the id of a query") from error


def _read(root: Place) -> Checkpoint:
    # Commits before offsets: a file that is added in between can make a batch look planned, but not committed.
    commits, offsets = numeric_names(root / "commits"), numeric_names(root / "offsets")
    # The last batch that is in both logs; with asynchronous progress tracking their numbers have gaps.
    done = max(set(commits) & set(offsets), default=None)
    newest = offsets[-1] if offsets else None
    committed = read_offsets(root / "offsets" / str(done)) if done is not None else None
    latest = read_offsets(root / "offsets" / str(newest)) if newest is not None else None
    planned = latest if newest != done else None
    last_commit = commits[-1] if commits else None
    if last_commit is not None:
        check_commit(root / "commits" / str(last_commit))
    sources = _sources(root, committed, planned)
    return Checkpoint(
        path=str(root),
        id=query_id(root),
        last_commit=last_commit,
        committed=merged(source.topics for source in sources),
        planned=merged(kafka_offsets(source.planned) for source in sources) if planned else None,
        commits=tuple(_times(root / "commits", commits)),
        sources=sources,
        operators=tuple(_operators(root / "state")),
        conf=latest.conf if latest else {},
    )


def _sources(root: Place, committed: OffsetEntry | None, planned: OffsetEntry | None) -> tuple[Source, ...]:
    done = committed.sources if committed else {}
    planned_sources = planned.sources if planned else {}
    # In the order of the plan; before the first batch only the folders name the sources.
    names = dict.fromkeys([*done, *planned_sources]) or [str(number) for number in numeric_names(root / "sources")]
    found = []
    for name in names:
        topics: KafkaOffsets | None = kafka_offsets(done.get(name))
        if topics is None and done.get(name) is None:
            topics = _initial(root / "sources" / name / "0")
        found.append(Source(name, done.get(name), planned_sources.get(name), topics))
    return tuple(found)


def _initial(path: Place) -> KafkaOffsets | None:
    """Return the starting offsets of a Kafka source, which it writes before batch 0; None for another source."""
    try:
        # It begins with a zero byte and a version line (SPARK-19517). Other sources write other content.
        text = files_of(path).read(path).decode("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return kafka_offsets(text[text.find("\n") + 1 :])


def _times(folder: Place, batches: Sequence[int]) -> Iterable[tuple[int, float]]:
    found = files_of(folder).facts([folder / str(batch) for batch in batches])
    # Without those purged meanwhile. If the last one is, `check_commit` fails.
    return [(batch, facts.modified) for batch, facts in zip(batches, found) if facts]


def _operators(state: Place) -> Iterable[StatefulOperator]:
    for number in numeric_names(state):
        folder = state / str(number)
        path = folder / "_metadata" / "metadata"
        if not any(files_of(path).facts([path])):
            # transformWithState keeps one file per batch instead.
            versions = numeric_names(folder / "_metadata" / "v2")
            path = folder / "_metadata" / "v2" / str(versions[-1]) if versions else path
        try:
            found = text(path)
        except FileNotFoundError:
            yield StatefulOperator(number, "", len(numeric_names(folder)))
            continue
        yield _operator(path, number, found)


def _operator(path: Place, number: int, found: str) -> StatefulOperator:
    try:
        value: dict[str, Any] = json.loads(found.partition("\n")[2])
        stores = value["stateStoreInfo"]
        return StatefulOperator(
            number,
            str(value["operatorInfo"]["operatorName"]),
            max(int(store["numPartitions"]) for store in stores),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, "it does not describe a stateful operator") from error

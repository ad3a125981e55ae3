"""Let a query read Kafka records again: set back where its last committed batch ended.

Spark begins the next batch where `offsets/N` of the last committed batch N ends. So that file is replaced by one with
earlier offsets. No batch is removed, added or numbered anew: a sink that skips batches which it has seen gets the
records in a batch of a new number, and the file sink, which needs every number, finds no gap
(`CompactibleFileStreamLog.compact`). `offsets/N-1` is replaced first and gets the same offsets, so that batch N has no
records when it is run once more, as by a rehearsal.

Spark writes what a batch reads to `offsets/N` before it looks whether that can be read, and plans no batch anew: the
query fails at that one for ever, also when Kafka shows the whole log again. A range that ends before it begins has no
records, so none can have been read: it is replaced by an empty one, under the same number. All other ranges of the
batch stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.checkpoint.files import REPLACES, Place, RemotePath
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import (
    REWOUND,
    KafkaOffsets,
    LogEnds,
    boundary,
    damaged,
    kafka_offsets,
    kind_of,
    numeric_names,
    read_offsets,
    text,
    unreadable,
)
from airflow_stream_provider.checkpoint.read import read
from airflow_stream_provider.lifecycle.errors import CheckpointAway, CheckpointError, StreamError
from airflow_stream_provider.lifecycle.rewind import back_to

_NEW_CHECKPOINT = (
    "Give the query a new checkpoint, and say in the script at which offsets it begins (startingOffsets). A file sink "
    "then needs a new folder, too: in the old one it drops every batch of a number that it has."
)


@dataclass(frozen=True)
class Rewind:
    """The replacements in one checkpoint; nothing was changed.

    :param batch: the last committed batch.
    :param records: offsets between where the query begins after it, and where it would have begun.
    :param files: the new contents of the files, in the order in which they are replaced.
    """

    batch: int
    records: int
    files: tuple[tuple[Place, bytes], ...]


def check_rewindable(location: Location, sources: Sequence[str] = ()) -> None:
    """Check that a query can go back at all; its batches may run meanwhile.

    :param sources: its sources, as the `standby` record names them; default: they are not known to be Kafka. The
        offsets of others may have the same form.
    :raises CheckpointError: it cannot, whatever the offsets; the message says why, and what to do instead.
    """
    root = locate(location)
    _check_rewindable(root)
    other = next((source for source in sources if not source.startswith("kafka:")), "")
    if other or not sources:
        raise _refused(root, f"the query does not read Kafka alone ({other or 'no source is known'})", _NEW_CHECKPOINT)


def _check_rewindable(root: Place) -> None:
    if isinstance(root, RemotePath) and root.root.partition(":")[0] not in REPLACES:
        raise _refused(root, "on this storage no file can be replaced at once", _NEW_CHECKPOINT)
    found = read(root)
    if found.operators:
        raise _refused(
            root, "the query keeps state, which has these records already, and would count them twice", _NEW_CHECKPOINT
        )
    if found.last_commit is None:
        raise _refused(root, "it has no committed batch yet", "There is nothing that could be read again.")
    if any(source.topics is None or source.committed is None for source in found.sources):
        raise _refused(root, "one of its sources is not Kafka, or has no offsets yet", _NEW_CHECKPOINT)


def plan_rewind(location: Location, to: KafkaOffsets, mark: str, after: int) -> Rewind:
    """Return how a query goes back to these offsets; where it is before them already, it stays there.

    Where that was done already for this mark, nothing is to be replaced.

    :param to: by topic and partition, the first record that is read again. Other partitions stay as they are.
    :param mark: id of the deployment that goes back.
    :param after: the last batch, behind which it goes back. Behind a later one it never does: its driver had the
        records read again, or has left that out.
    :raises CheckpointError: that would lose or mix up something; the message says what, and what to do instead.
    """
    root = locate(location)
    _check_rewindable(root)
    try:
        ends = boundary(root)
        return Rewind(after, 0, ()) if _is_done(root, ends, mark, after) else _plan(root, ends, to, mark)
    except OSError as error:
        raise unreadable(error.filename or root, error) from error


def apply_rewind(rewind: Rewind) -> None:
    """Carry out a plan; no other driver may use the checkpoint meanwhile, or have used it since. It may be done again.

    :raises CheckpointError: a file cannot be written. The query then goes on where it was, or goes back; nothing else.
        Its field `may_land` says whether the storage may yet write it, as after a time-out: no query may start before
        this process is dead.
    """
    for path, data in rewind.files:
        try:
            files_of(path).replace(path, data)
        except OSError as error:
            kind = kind_of(error)
            raise kind(
                f"{path} cannot be replaced: {error.strerror or error}. Queries named before it may have gone back.",
                next_step="Check that the checkpoint's storage is up, not full, and open to the driver's user. "
                "Look how far the queries are; then rewind those that have not gone back.",
                path=str(path),
                may_land=issubclass(kind, CheckpointAway),
            ) from error


def _is_done(root: Place, ends: LogEnds, mark: str, after: int) -> bool:
    """Whether a query went back for this mark after this batch.

    :raises CheckpointError: it did not, and cannot any more.
    """
    last = ends.offsets
    if last is None or last < after:
        found = f"it ends before batch {after}, as an older copy does"
        raise _refused(root, found, "Look how far the stream is (`airflow streams lag`), and give the command again.")
    try:
        done = read_offsets(root / "offsets" / str(after)).rewound == mark
    except FileNotFoundError:
        return True  # purged long ago: the driver that ran all these batches has looked at it before
    if not done and last > after and ends.commit != after:
        found = f"batches were run after batch {after} without it"
        raise _refused(root, found, "Give the command again: it goes back from where the stream is then.")
    return done


def may_land(error: BaseException) -> bool:
    """Whether something may yet be written to a checkpoint in this driver's name; see `apply_rewind`."""
    return isinstance(error, StreamError) and bool(error.fields.get("may_land"))


def _plan(root: Place, ends: LogEnds, to: KafkaOffsets, mark: str) -> Rewind:
    batch = ends.commit
    if batch is None or not ends.completed:
        found = f"batch {ends.offsets} is not committed, and would be run again from an earlier offset"
        raise _refused(root, found, "Let the stream commit that batch, then rewind it.")
    if batch - 1 not in numeric_names(root / "offsets"):
        raise _refused(root, f"batch {batch} is the only one", "Let the stream commit another batch, then rewind it.")
    last, before = root / "offsets" / str(batch), root / "offsets" / str(batch - 1)
    entry, former = read_offsets(last), read_offsets(before)
    if (former.version, [*former.sources]) != (entry.version, [*entry.sources]):
        found = f"batches {batch - 1} and {batch} have other sources"
        raise _refused(root, found, "Let the stream commit another batch, then rewind it.")
    lines, records = [], 0
    for name, value in entry.sources.items():
        known = kafka_offsets(value) or {}
        earlier = back_to(known, to)
        records += sum(sum(known[topic].values()) - sum(parts.values()) for topic, parts in earlier.items())
        line = json.dumps(earlier, separators=(",", ":"))
        lines.append(line if entry.version == 1 else f"{name}:{line}")
    if not records:
        return Rewind(batch, 0, ())
    return Rewind(batch, records, ((before, _with(before, lines, {})), (last, _with(last, lines, {REWOUND: mark}))))


def _with(path: Place, lines: list[str], conf: Mapping[str, str]) -> bytes:
    """Return an offsets file with other offsets; its other lines stay as Spark wrote them, but for what is added."""
    version, metadata = text(path).split("\n")[:2]
    if conf:
        try:
            value: dict[str, Any] = json.loads(metadata)
            value["conf"] = {**(value.get("conf") or {}), **conf}
        except (ValueError, TypeError, AttributeError) as error:
            raise damaged(path, "its second line has no settings") from error
        metadata = json.dumps(value, separators=(",", ":"))
    return "\n".join([version, metadata, *lines]).encode()


def _refused(root: object, found: str, next_step: str) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint {root} cannot be rewound: {found}.", next_step=next_step, path=str(root), rewind=False
    )


@dataclass(frozen=True)
class StepBack:
    """The ranges of a planned batch that end before they begin; nothing was changed.

    :param batch: its number.
    :param begins: by topic and partition, where such a range begins: Kafka has shown all records before.
    :param ended: in the same order for people, where it was to end: ``orders-3 at 5``.
    :param path: the file of the batch.
    :param data: what it is to contain.
    """

    batch: int
    begins: KafkaOffsets
    ended: tuple[str, ...]
    path: Place
    data: bytes

    def apply(self) -> None:
        """Make these ranges empty; no driver may use the checkpoint meanwhile.

        :raises OSError: the file is as it was.
        """
        files_of(self.path).replace(self.path, self.data)


def stepped_back(location: Location) -> StepBack | None:
    """Return what ends before it begins in the batch that is planned and not committed; None: nothing does.

    None, too, where a file cannot be replaced at once.

    :raises CheckpointError: the checkpoint cannot be read now.
    """
    root = locate(location)
    if isinstance(root, RemotePath) and root.root.partition(":")[0] not in REPLACES:
        return None
    ends = boundary(root)
    if ends.completed or ends.offsets is None or ends.commit is None or ends.offsets != ends.commit + 1:
        return None
    path = root / "offsets" / str(ends.offsets)
    try:
        planned, before = read_offsets(path), read_offsets(root / "offsets" / str(ends.commit))
        head = text(path).split("\n")[:2]
    except OSError as error:
        raise unreadable(error.filename or path, error) from error
    begins: dict[str, dict[int, int]] = {}
    ended, lines = [], []
    for name, value in planned.sources.items():
        to, since = kafka_offsets(value), kafka_offsets(before.sources.get(name))
        for topic, partitions in (since or {}).items() if to is not None else ():
            for partition, begin in partitions.items():
                end = (to or {}).get(topic, {}).get(partition)
                if end is None or end < begin:
                    begins.setdefault(topic, {})[partition] = begin
                    ended.append(f"{topic}-{partition} {'is missing' if end is None else f'at {end}'}")
                    to = {**(to or {}), topic: {**(to or {}).get(topic, {}), partition: begin}}
        line = "-" if value is None else json.dumps(to, separators=(",", ":")) if to is not None else value
        lines.append(line if planned.version == 1 else f"{name}:{line}")
    if not begins:
        return None
    return StepBack(ends.offsets, begins, tuple(ended), path, "\n".join([*head, *lines]).encode())

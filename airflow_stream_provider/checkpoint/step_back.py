"""A planned batch that ends before it begins, since Kafka showed an earlier end of a log for a moment.

Spark writes what a batch reads to `offsets/N` before it looks whether that can be read, and plans no batch anew: the
query fails at that one for ever, also when Kafka shows the whole log again. A range that ends before it begins has no
records, so none can have been read: it is replaced by an empty one, under the same number. All other ranges of the
batch stay as they are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from airflow_stream_provider.checkpoint.files import REPLACES, Place, RemotePath
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import (
    KafkaOffsets,
    boundary,
    kafka_offsets,
    read_offsets,
    text,
    unreadable,
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

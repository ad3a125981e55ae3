"""Whether a checkpoint is the one that its stream has run on, as far as anybody of the stream has seen it.

Spark begins anew, without a word, on a checkpoint that has vanished or was emptied, and runs batches again on an older
copy: a sink that remembers batch ids drops the new records, any other gets the old ones twice.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import boundary
from airflow_stream_provider.checkpoint.read import query_id
from airflow_stream_provider.lifecycle.errors import CheckpointBroken

# An NFS client keeps a folder's listing for up to 60 s (acdirmax).
STALE_SECONDS = 60.0
POLL_SECONDS = 0.2


class Seen(NamedTuple):
    """The last sight of a checkpoint.

    :param id: Spark's id of the query; empty: not known, or there was none.
    :param batch: the last committed batch; None: not known, or there was none.
    """

    id: str = ""
    batch: int | None = None

    def and_then(self, later: Seen) -> Seen:
        """Return what is known of the checkpoint after a later look, too."""
        known = [batch for batch in (self.batch, later.batch) if batch is not None]
        return Seen(later.id or self.id, max(known, default=None))

    def __str__(self) -> str:
        batch = "no committed batch" if self.batch is None else f"batch {self.batch} committed"
        return f"{batch}, of the query id {self.id}" if self.id else batch


def is_another(expected: Seen, found: Seen) -> bool:
    """Whether a checkpoint is not the one that was seen, or an older copy of it: no query may start on it."""
    if expected.batch is not None and (found.batch is None or found.batch < expected.batch):
        return True
    if not expected.id or (found.batch is None and not found.id):
        return False  # not known, or nothing was ever committed, and nothing is lost
    return expected.id != found.id


def look(location: Location) -> Seen:
    """Return what a checkpoint shows on this machine now.

    :raises CheckpointError: its logs, or the file with its id, cannot be read.
    """
    root = locate(location)
    batch = boundary(root).commit
    return Seen(query_id(root) or "", batch)


def await_seen(location: Location, expected: Seen, seconds: float = STALE_SECONDS) -> Seen:
    """Wait until a checkpoint shows what was seen of it; return what it shows, at once when that is so.

    Spark lists the logs when a query starts. From a listing that an NFS client had kept since the rehearsal it would
    run batches again that the former holder has committed.

    :param expected: what anybody of the stream has seen of it.
    :param seconds: how long to wait; 0 where only this machine has written there.
    :raises CheckpointBroken: it is another one, or an older copy.
    :raises CheckpointError: its logs, or the file with its id, cannot be read.
    """
    root = locate(location)
    deadline = time.monotonic() + seconds
    while is_another(expected, found := look(root)):
        # Another id is no matter of an old listing.
        if time.monotonic() >= deadline or (expected.id and found.id and expected.id != found.id):
            raise CheckpointBroken(
                f"The checkpoint {root} is not the one that the stream has run on: it has {found} here, and {expected} "
                "was seen before. It was removed, emptied or replaced by an older copy, or this machine does not see "
                "the storage. A query that started on it would lose records or run them twice.",
                next_step="Put the checkpoint back as it was, and start the stream. If it was replaced on purpose: see "
                "that the stream is stopped, and deploy the release that ran, with this checkpoint in the form's "
                "`changed_checkpoints`; it then goes on from what is there, and where nothing is there, reads its "
                "input from the start.",
                location=str(root),
                batch=expected.batch,
                found=found.batch,
                id=expected.id,
                found_id=found.id,
            )
        list_anew(root)
        time.sleep(POLL_SECONDS)
    return found


def list_anew(location: Location) -> None:
    """Let this machine list a checkpoint's logs anew: an NFS client does so once it has changed a folder itself."""
    root = locate(location)
    for name in ("offsets", "commits"):
        files_of(root).list_anew(root / name)

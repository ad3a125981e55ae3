"""Wait until this machine sees what another one has written to a checkpoint."""

from __future__ import annotations

import logging
import time

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import boundary
from airflow_stream_provider.lifecycle.errors import CheckpointError

# An NFS client keeps a folder's listing for up to 60 s (acdirmax).
STALE_SECONDS = 60.0
POLL_SECONDS = 0.2

log = logging.getLogger(__name__)


def await_commit(location: Location, batch: int, seconds: float = STALE_SECONDS, *, required: bool = True) -> None:
    """Wait until a batch is seen to be committed; return at once when it is.

    Spark lists the logs when a query starts. From a listing that an NFS client had kept since the rehearsal it would
    run batches again that the former holder has committed.

    :param batch: the last batch that the former holder committed, by its `released` record.
    :param seconds: how long to wait.
    :param required: default True. False: a commit that has not appeared in time is only logged: after a stop, a person
        may have put an older copy of the checkpoint there.
    :raises CheckpointError: the commit has not appeared though it is required, or the logs cannot be read.
    """
    root = locate(location)
    deadline = time.monotonic() + seconds
    while (found := boundary(root).commit) is None or found < batch:
        if time.monotonic() >= deadline:
            if not required:
                log.warning("%s ends at batch %s here; before the stop, batch %s was committed.", root, found, batch)
                return
            raise CheckpointError(
                f"The checkpoint {root} ends at batch {found} here, but its former holder committed batch {batch}: the "
                f"commit has not appeared within {seconds:.0f} s.",
                next_step="Check that both drivers use the same storage, and that nobody put an older copy of the "
                "checkpoint there. To go on from an older copy, stop the stream and start it again.",
                location=str(root),
                batch=batch,
                found=found,
            )
        list_anew(root)
        time.sleep(POLL_SECONDS)


def list_anew(location: Location) -> None:
    """Let this machine list a checkpoint's logs anew: an NFS client does so once it has changed a folder itself."""
    for folder in ("offsets", "commits"):
        _change(locate(location) / folder)


def _change(folder: Place) -> None:
    files_of(folder).list_anew(folder)

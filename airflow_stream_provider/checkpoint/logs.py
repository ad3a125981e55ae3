"""The two numbered logs of a checkpoint: what Spark planned (`offsets/`) and what it finished (`commits/`)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from airflow_stream_provider.checkpoint.location import local_path


@dataclass(frozen=True)
class LogEnds:
    """Where both logs end: the batch planned last and the batch committed last, None for an empty log."""

    offsets: int | None
    commit: int | None

    @property
    def completed(self) -> bool:
        """Whether the checkpoint is at a batch boundary: every planned batch is committed."""
        return self.offsets == self.commit


def numbers(folder: str | os.PathLike[str]) -> list[int]:
    """Return the batch ids in a log folder, sorted; [] when the folder does not exist.

    Only integer names count: Spark keeps hidden `.N.crc` and `.N.<uuid>.tmp` files beside them, and the file
    source `N.compact`.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def boundary(location: str | os.PathLike[str]) -> LogEnds:
    """Judge quickly, from the names of the log files alone, whether a checkpoint is at a batch boundary.

    On a running query the answer is a true snapshot of one moment between two commits.

    :raises CheckpointError: the location is not a local folder.
    """
    root = local_path(location)
    commits = numbers(root / "commits")
    while True:
        offsets = numbers(root / "offsets")
        again = numbers(root / "commits")
        if again[-1:] == commits[-1:]:
            return LogEnds(offsets[-1] if offsets else None, commits[-1] if commits else None)
        commits = again

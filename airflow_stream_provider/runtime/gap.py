"""Measures the gap in commits when this driver took over, for readers that cannot see the checkpoint."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from airflow_stream_provider.checkpoint.location import files_of, locate
from airflow_stream_provider.lifecycle.errors import CheckpointError

log = logging.getLogger(__name__)


@dataclass
class _Start:
    """A start of a query in this driver: the batch before it, and the gap as soon as that is known."""

    last: int
    asked: bool = False
    seconds: float | None = None


class Gaps:
    """The gaps of this driver's queries, by the times of the commit files, which one clock has written."""

    def __init__(self) -> None:
        self._starts: dict[str, _Start] = {}

    def starts(self, checkpoint: str, last: int | None) -> None:
        """Note that a query starts here.

        :param last: the last batch that is committed; None before the first one, which has no gap.
        """
        self._starts.pop(checkpoint, None)
        if last is not None:
            self._starts[checkpoint] = _Start(last)

    def seconds(self, checkpoint: str, batch: int | None) -> float | None:
        """Return the seconds between the last commit before the start and the first one after it; None while unknown.

        Never blocks: a thread of its own reads the times, once.

        :param batch: the last batch that this driver has committed.
        """
        start = self._starts.get(checkpoint)
        if start is None or batch is None or batch <= start.last:
            return None
        if not start.asked:
            start.asked = True
            threading.Thread(target=_measure, args=(checkpoint, start), name="airflow-stream-gap", daemon=True).start()
        return start.seconds


def _measure(checkpoint: str, start: _Start) -> None:
    try:
        commits = locate(checkpoint) / "commits"
        before, after = commits / str(start.last), commits / str(start.last + 1)
        ended, began = files_of(commits).facts([before, after])
    except (CheckpointError, OSError) as error:
        log.warning("How long nothing was committed to %s is not known: %s", checkpoint, error)
        return
    if ended and began:
        start.seconds = round(began.modified - ended.modified, 3)

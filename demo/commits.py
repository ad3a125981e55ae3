"""When each batch of a query was committed, and the gaps between commits: what an upgrade must not widen."""

from __future__ import annotations

import contextlib
import statistics
import threading
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from airflow_stream_provider.checkpoint.logs import numeric_names

# Spark keeps a hundred commits, which is more than a minute even for the fastest trigger seen here.
POLL_SECONDS = 0.2

Commits = Mapping[int, float]
"""Wall-clock seconds of the commit of each batch of one query."""


class CommitWatcher:
    """Notes the commits of queries as they come, from `with` on; `commits` is by query and batch.

    The time of a commit is that of its file, so it does not depend on when it was noticed.

    :param checkpoints: folder of each query's checkpoint, by the query's name; it need not exist yet.
    """

    def __init__(self, checkpoints: Mapping[str, Path]) -> None:
        self.commits: dict[str, dict[int, float]] = {query: {} for query in checkpoints}
        self._folders = {query: folder / "commits" for query, folder in checkpoints.items()}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commits", daemon=True)

    def __enter__(self) -> CommitWatcher:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Note what is new now."""
        for query, folder in self._folders.items():
            seen = self.commits[query]
            for batch in numeric_names(folder):
                if batch not in seen:
                    with contextlib.suppress(FileNotFoundError):  # purged since it was listed
                        seen[batch] = (folder / str(batch)).stat().st_mtime

    def _run(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            self.look()


def crossing(commits: Commits, acquired_at: float) -> float | None:
    """Return the gap of a hand-over: from the old holder's last commit to the new one's first.

    The old holder has committed for the last time before the new one acquires, and that one starts afterwards, so
    the moment of `acquired` separates them. None when one of the two commits is missing.
    """
    before = [at for at in commits.values() if at <= acquired_at]
    after = [at for at in commits.values() if at > acquired_at]
    return min(after) - max(before) if before and after else None


def intervals(commits: Commits, since: float, until: float) -> list[float]:
    """Return the seconds between neighbouring commits of which both lie in this time."""
    times = sorted(at for at in commits.values() if since <= at <= until)
    return [later - earlier for earlier, later in pairwise(times)]


def largest_gap(commits: Commits, since: float, until: float) -> float | None:
    """Return the longest time without a commit that overlaps with this time; None with fewer than two commits."""
    times = sorted(commits.values())
    gaps = [b - a for a, b in pairwise(times) if b >= since and a <= until]
    return max(gaps, default=None)


def percentiles(values: list[float]) -> dict[str, float]:
    """Return the median and the 95th percentile as `p50` and `p95`; {} for fewer than two values."""
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return {"p50": round(cuts[9], 3), "p95": round(cuts[18], 3)}

"""Record when each batch of a query was committed, and compute the gaps between commits."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Mapping
from itertools import pairwise
from types import TracebackType

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import files_of
from airflow_stream_provider.checkpoint.logs import numeric_names

# Spark keeps 100 commits, which is more than a minute for the fastest trigger here.
POLL_SECONDS = 0.2

Commits = Mapping[int, float]
"""The time of each batch's commit, in seconds since 1970, by batch id; for one query."""


class CommitWatcher:
    """Records the commits of queries while its `with` block runs. `commits` has their times by query and batch.

    The time of a commit is that of its file, so it does not depend on when the file was found.

    :param checkpoints: folder of each query's checkpoint, by name of the query. The folders need not exist yet.
    """

    def __init__(self, checkpoints: Mapping[str, Place]) -> None:
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
        """Record the commits that are new since the last call.

        :raises OSError, CheckpointError: the storage does not answer. What was new is found by a later look.
        """
        for query, folder in self._folders.items():
            seen = self.commits[query]
            for batch in numeric_names(folder):
                at = None if batch in seen else written_at(folder / str(batch))
                if at is not None:
                    seen[batch] = at

    def _run(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            self.look()


def written_at(path: Place) -> float | None:
    """Return when a file was written, in seconds since 1970; None: it does not exist, as Spark has purged it."""
    [facts] = files_of(path).facts([path])
    return None if facts is None else facts.modified


def crossing(commits: Commits, acquired_at: float) -> float | None:
    """Return the gap of a hand-over in seconds: from the old holder's last commit to the new holder's first.

    None if one of the two commits is missing.

    :param acquired_at: time of the `acquired` record, in seconds since 1970. All commits of the old holder are before
        it, and all commits of the new holder after it.
    """
    before = [at for at in commits.values() if at <= acquired_at]
    after = [at for at in commits.values() if at > acquired_at]
    return min(after) - max(before) if before and after else None


def intervals(commits: Commits, since: float, until: float) -> list[float]:
    """Return the seconds between successive commits that are both between two times."""
    times = sorted(at for at in commits.values() if since <= at <= until)
    return [later - earlier for earlier, later in pairwise(times)]


def largest_gap(commits: Commits, since: float, until: float) -> float | None:
    """Return the longest time without a commit, in seconds, that overlaps with the time from `since` to `until`.

    None with fewer than two commits.
    """
    times = sorted(commits.values())
    gaps = [b - a for a, b in pairwise(times) if b >= since and a <= until]
    return max(gaps, default=None)


def percentiles(values: list[float]) -> dict[str, float]:
    """Return the median as `p50` and the 95th percentile as `p95`; {} for fewer than two values."""
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return {"p50": round(cuts[9], 3), "p95": round(cuts[18], 3)}

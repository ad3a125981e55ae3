"""Runs inside the Spark driver, around the user's unmodified script. Standard library and pyspark only."""

from __future__ import annotations

# True while the driver rehearses.
_rehearsing = False


def rehearsing() -> bool:
    """Return whether a rehearsal is running in this driver.

    A foreachBatch function that the spec calls safe for rehearsals can ask this before it writes.
    """
    return _rehearsing

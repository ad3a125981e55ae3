"""What runs inside the Spark driver around the user's unmodified script. Standard library and pyspark only."""

from __future__ import annotations

# True while the driver rehearses: user code in foreachBatch that the spec calls safe can ask before it writes.
_rehearsing = False


def rehearsing() -> bool:
    """Return whether the call comes from a rehearsal: nothing of what it does may be seen outside."""
    return _rehearsing

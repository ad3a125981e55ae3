"""When Airflow itself ends a wait, because no triggerer runs."""

from __future__ import annotations

from datetime import timedelta

# The triggers keep the deadline themselves. Airflow ends a wait this much later, when no triggerer runs or it hangs.
TRIGGER_GRACE_SECONDS = 600.0


def beyond(seconds: float) -> timedelta:
    """Return the timeout of a deferral whose trigger ends the wait after so many seconds."""
    return timedelta(seconds=max(0.0, seconds) + TRIGGER_GRACE_SECONDS)

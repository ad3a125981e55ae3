"""A client of the fraud scoring service, as far as the demo needs one.

The service answers at once until a client has used up its quota, and then makes it wait: what a release
that was only tried for a few seconds finds out in production.
"""

from __future__ import annotations

import time

QUOTA = 5000  # calls that each Python worker has before it is throttled
THROTTLED_SECONDS = 0.006  # what a call takes from then on

_calls = 0


def score(customer: str, cents: int) -> float:
    """Return how suspicious an order is, from 0 to 1."""
    global _calls
    _calls += 1
    if _calls > QUOTA:
        time.sleep(THROTTLED_SECONDS)
    return min(1.0, cents / 10_000 + len(customer) / 100)

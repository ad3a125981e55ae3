"""Try again what does not answer now, where a run has to have an answer before it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from airflow_stream_provider.lifecycle.errors import StreamError

T = TypeVar("T")

# For when all has healed: a storage or broker that was frozen until then may need some time.
ANSWER_SECONDS = 60.0
POLL_SECONDS = 0.5


def answered(look: Callable[[], T]) -> T:
    """Return what a look finds, which is tried again while what it looks at does not answer.

    :raises OSError, StreamError: it does not for a minute.
    """
    until = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return look()
        except (OSError, StreamError):
            if time.monotonic() > until:
                raise
            time.sleep(POLL_SECONDS)

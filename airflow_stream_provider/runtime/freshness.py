"""Whether what a standby has rehearsed may still be taken for true when it is asked to take over."""

from __future__ import annotations

from collections.abc import Callable

from airflow_stream_provider.runtime.ports import Clock

# What was rehearsed, or looked at, within so many seconds is taken for true.
FRESH_SECONDS = 60.0
# After so long it is rehearsed again, whatever can be seen: nobody sees rights, tokens and tables without trying.
STALE_SECONDS = 600.0


class Freshness:
    """How long ago a standby has rehearsed, or has seen that nothing has changed since.

    :param stale: see `Ports.stale`.
    """

    def __init__(self, stale: Callable[[], str], clock: Clock) -> None:
        self._stale = stale
        self._clock = clock
        self._rehearsed_at = self._fresh_at = clock.monotonic()

    @property
    def lasts(self) -> bool:
        """Whether nothing need be looked at again now."""
        return self._clock.monotonic() - self._fresh_at < FRESH_SECONDS

    def rehearsed(self) -> None:
        """A rehearsal has just gone well."""
        self._rehearsed_at = self._fresh_at = self._clock.monotonic()

    def why_again(self) -> str:
        """Look, and return why it is to be rehearsed again, as a clause; empty: nothing has changed, and it is fresh.

        :raises StreamError: this release cannot take over any more.
        """
        old = self._clock.monotonic() - self._rehearsed_at
        why = f"its rehearsal is {old:.0f} s old" if old >= STALE_SECONDS else self._stale()
        if not why:
            self._fresh_at = self._clock.monotonic()
        return why

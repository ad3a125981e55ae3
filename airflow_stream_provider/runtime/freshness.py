"""Whether what a standby has rehearsed may still be taken for true when it is asked to take over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_stream_provider.runtime.ports import Clock, Compare

# A rehearsal, or a look, counts for so many seconds.
FRESH_SECONDS = 60.0
# After so long it is rehearsed again, whatever can be seen: rights, tokens and tables show only when they are tried.
STALE_SECONDS = 600.0


class Freshness:
    """How long ago a standby has rehearsed, or has seen that nothing has changed since; and against whom.

    :param stale: see `Ports.stale`.
    :param compare: see `Ports.compare`.
    """

    def __init__(self, stale: Callable[[], str], compare: Compare, clock: Clock) -> None:
        self._stale = stale
        self._compare = compare
        self._clock = clock
        self._compared_with: str | None = None
        self._rehearsed_at = self._fresh_at = clock.monotonic()

    @property
    def lasts(self) -> bool:
        """Whether nothing need be looked at again now."""
        return self._clock.monotonic() - self._fresh_at < FRESH_SECONDS

    def rehearsed(self, holder: str | None) -> None:
        """A rehearsal has just gone well, beside this last holder."""
        self._compared_with = holder
        self._rehearsed_at = self._fresh_at = self._clock.monotonic()

    def check_fits(self, holder: str | None, former: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Compare with the last holder, if it is another one than was rehearsed against.

        :param former: returns its queries.
        :raises RehearsalRefused: this release cannot follow it.
        """
        if holder != self._compared_with:
            self._compare(former())
            self._compared_with = holder

    def why_again(self) -> str:
        """Look, and return why it is to be rehearsed again, as a clause; empty: nothing has changed, and it is fresh.

        :raises StreamError: this release cannot take over any more.
        """
        old = self._clock.monotonic() - self._rehearsed_at
        why = f"its rehearsal is {old:.0f} s old" if old >= STALE_SECONDS else self._stale()
        if not why:
            self._fresh_at = self._clock.monotonic()
        return why


def new_doubts(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what a rehearsal leaves in doubt that an earlier one did not: with that, a person has let it go on."""
    known = before.get("queries", {})
    found = now.get("queries", {}).items()
    return [query["doubt"] for name, query in found if "doubt" in query and "doubt" not in known.get(name, {})]

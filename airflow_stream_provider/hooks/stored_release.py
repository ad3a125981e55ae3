"""Find a stored release of a stream by its hash, or by the beginning of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StorageUnavailable, StreamError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamState

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook

# Fewer digits would be somebody's typing error.
MIN_DIGITS = 4
_DIGITS = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},64}}")
# The number of digits of a hash that are shown.
_SHOWN = 12
# So many of those that are there are named in an error.
_NAMED = 10


def stored_release(hook: StreamHook, state: StreamState, digits: str) -> Release:
    """Return the one release whose hash begins so, and whose stored files are those that were published.

    :raises SpecError: there is none, or there are several; the error names those that are there. Or its files are not
        what was published.
    :raises ControlUnavailable: they cannot be read now.
    :raises StorageUnavailable: as above.
    """
    known: dict[str, Release] = {}
    for each in reversed(list(state.deployments.values())):
        known.setdefault(each.release.hash, each.release)
    wanted = digits.strip().lower()
    found = [release for hash, release in known.items() if hash.startswith(wanted)] if _DIGITS.fullmatch(wanted) else []
    if len(found) > 1:
        raise SpecError(
            f"{len(found)} releases of {hook.stream} have a hash that begins with {wanted}: {_named(found)}.",
            next_step="Give more digits of it.",
        )
    if not found:
        there = [release for release in known.values() if _is_stored(hook, release)]
        raise SpecError(
            f"{hook.stream} has no stored release of which the hash begins with {digits!r:.70}.",
            next_step=f"Those that are there, newest first: {_named(there) or 'none'}. "
            f"Give {MIN_DIGITS} or more digits of one.",
        )
    missing = why_not_stored(hook, found[0])
    if missing:
        raise SpecError(missing, next_step="Upgrade to that version instead, with its files, or redeploy another one.")
    return found[0]


def why_not_stored(hook: StreamHook, release: Release) -> str:
    """Return why a release cannot be started from what is stored of it; empty when it can.

    :raises ControlUnavailable: that cannot be read now.
    :raises StorageUnavailable: as above.
    """
    try:
        hook.releases.verify(release)
    except (ControlUnavailable, StorageUnavailable):
        raise
    except StreamError as error:
        return error.message
    return ""


def _is_stored(hook: StreamHook, release: Release) -> bool:
    return not why_not_stored(hook, release)


def _named(releases: Iterable[Release]) -> str:
    named = [f"{release.version} ({release.hash[:_SHOWN]})" for release in releases]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more}"

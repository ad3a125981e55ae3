"""Where the queries stopped: how a holder's last record says it, and what the next one makes of that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow_stream_provider.lifecycle.record import by_checkpoint
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime.ports import QueryEnd


class EndsBefore(NamedTuple):
    """What the next holder must see of the one before, for `Queries.start`.

    :param committed: by checkpoint, the last batch that was committed there.
    :param required: whether it is an error when that does not show: after a hand-over.
    """

    committed: Mapping[str, int]
    required: bool


def described(ends: Mapping[str, QueryEnd]) -> dict[str, Any]:
    """Return where the queries stopped, as the control log says it."""
    return {
        name: {"batch": end.batch, "boundary": end.boundary.value, "checkpoint": end.checkpoint}
        for name, end in ends.items()
    }


def ends_before(state: StreamState) -> EndsBefore:
    """Return where the last holder stopped, as far as the log says it."""
    request = next(reversed(list(state.requests.values())), None)
    handed_over = request is not None and bool(request.ends)
    # After a stop, SIGTERM or a failure, too, this machine may not see the last commits yet.
    ends = request.ends if request is not None and handed_over else state.ends
    return EndsBefore(by_checkpoint(ends), handed_over)

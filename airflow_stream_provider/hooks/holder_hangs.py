"""Look whether the driver that holds a stream hangs, before it is asked for a batch boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.condition import Needs
from airflow_stream_provider.planning.hanging import hanging, needs_to_tell

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.spec.stream import StreamSpec


def holder_hangs(hook: StreamHook, spec: StreamSpec, snapshot: Snapshot) -> str:
    """Return why the holder hangs, as a sentence; empty when it does not, or when the lag is not known.

    See `planning.hanging` for what that is. Nothing fails for want of Kafka: then the holder is asked.
    """
    holder = snapshot.state.holder
    if holder is None or not spec.kafka:
        return ""
    try:
        found = hook.observe(Needs(lag=needs_to_tell(snapshot, spec.lag.limits)))
    except StreamError as error:
        hook.log.warning("Whether %s hangs is not known: %s", holder, error)
        return ""
    return hanging(found, spec.lag.limits) if found.state.holder == holder else ""

"""Read the heartbeats of a stream that can still matter."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import StreamState


def living_heartbeats(log: ControlLog, state: StreamState) -> Mapping[str, Heartbeat]:
    """Return the heartbeats that can still matter; those of drivers that ended long ago are not read again."""
    found = {}
    for name in log.store.heartbeats():
        known = state.incarnations.get(name)
        # A deployment that the state has left out does not matter.
        coming = known is None and deployment_of(name) in state.deployments
        ended = known is None or known.state.terminal
        wanted = coming or not ended or name in (*state.must_fence, state.last_holder)
        beat = log.heartbeat(name) if wanted else None
        if beat is not None:
            found[name] = beat
    return found

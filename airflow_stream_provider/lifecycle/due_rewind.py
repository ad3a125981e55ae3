"""Whether queries read Kafka records again when a driver comes to hold: as it was asked, or in place of a lost one.

A rewind is carried out by the first driver of its deployment that holds, before its queries start. If that driver is
lost, or was told to end before it had started anything, the next holder looks at the checkpoint, where finished steps
are marked, and does the rest. It is never done behind a batch that was run since: those records would be read a third
time. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import by_checkpoint
from airflow_stream_provider.lifecycle.rewind import WantedRewind, at
from airflow_stream_provider.lifecycle.state import StreamState


class DueRewind(NamedTuple):
    """A rewind that a driver which has come to hold carries out, as far as its checkpoints do not have it already.

    :param mark: id of the deployment that it was asked of.
    :param stood: by checkpoint, the last batch before that deployment came to hold first; what the log does not tell is
        missing.
    :param owed: whether another driver was to do it, which was lost, or ended before it had begun.
    """

    wanted: WantedRewind
    mark: str
    stood: Mapping[str, int]
    owed: bool

    def left_undone(self, why: str) -> str:
        """Return the message for people when no driver does it any more."""
        return (
            f"{self.mark} was to read records since {at(self.wanted.to)} again, and was lost before it was seen to do "
            f"so. Nobody does it any more. {why}"
        )


def due_rewind(state: StreamState, incarnation: str) -> DueRewind | None:
    """Return the rewind that is due when a driver comes to hold first, or was when it did; None: none is."""
    deployment = state.deployments.get(deployment_of(state.rewinder or ""))
    wanted = deployment.rewind if deployment is not None else None
    if deployment is None or wanted is None:
        return None
    return DueRewind(wanted, deployment.id, by_checkpoint(state.stood), owed=state.rewinder != incarnation)

"""Whether queries read Kafka records again when a driver comes to hold: as it was asked, or in place of a lost one.

A rewind is carried out by the first driver of its deployment that holds, before its queries start. If that one is lost,
nobody knows how far it came; so whoever holds next looks at the checkpoint, where what was done is marked, and does the
rest. It is never done behind a batch that was run since: those records would be read a third time. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from airflow_stream_provider.lifecycle.record import by_checkpoint
from airflow_stream_provider.lifecycle.rewind import WantedRewind, at
from airflow_stream_provider.lifecycle.state import Incarnation, IncarnationState, StreamState


class DueRewind(NamedTuple):
    """A rewind that a driver which has come to hold carries out, as far as its checkpoints do not have it already.

    :param mark: id of the deployment that it was asked of.
    :param stood: by checkpoint, the last batch before that deployment came to hold first; what the log does not tell is
        missing.
    :param owed: whether another driver was to do it, which was lost.
    """

    wanted: WantedRewind
    mark: str
    stood: Mapping[str, int]
    owed: bool

    def left_undone(self, why: str) -> str:
        """Return what people are told when nobody does it any more."""
        return (
            f"{self.mark} was to read records since {at(self.wanted.to)} again, and was lost before it was seen to do "
            f"so. Nobody does it any more. {why}"
        )


def due_rewind(state: StreamState, incarnation: str) -> DueRewind | None:
    """Return the rewind that is due when a driver comes to hold first; None: none is.

    Of several, that of the deployment which came to hold last. One whose first driver has failed has told why; one
    whose first driver has let go had done it before.
    """
    me = state.incarnations[incarnation]
    first_of: dict[str, Incarnation] = {}
    for each in state.incarnations.values():
        asked = state.deployments[each.deployment].declared.get("rewind") is not None
        if asked and each.epoch and each.epoch <= first_of.get(each.deployment, each).epoch:
            first_of[each.deployment] = each
    first = max(first_of.values(), key=lambda each: each.epoch, default=None)
    if first is None or (first.id != me.id and first.state is not IncarnationState.FENCED):
        return None
    deployment = state.deployments[first.deployment]
    wanted = deployment.rewind
    if wanted is None:
        return None
    return DueRewind(wanted, deployment.id, by_checkpoint(deployment.stood), owed=first.id != me.id)

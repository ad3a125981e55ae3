"""The signs of life of a stream's drivers in a look: enough to decide whether to look closer. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.monitoring.silence import silent_since
from airflow_stream_provider.planning.heartbeat_age import silence_limit
from airflow_stream_provider.planning.recovery_decision import coming_up
from airflow_stream_provider.planning.snapshot import Snapshot

# Heartbeats come every second. One that is older, by the clocks of two machines, is read once more in the same look,
# so much later.
FRESH_SECONDS = 5.0
AGAIN_SECONDS = 3.0


def needed(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the incarnations whose life decides about recovery: the holder, or the standbys while no driver holds, and
    the drivers that an open request needs.
    """
    state, request = snapshot.state, snapshot.state.open_request
    names = {state.holder or "", *((request.to or "", request.source or "") if request else ())}
    if state.holder is None:
        names |= {i.id for i in state.standbys() if live_standby(state, i.id)}
    return tuple(sorted(name for name in names - {""} if not state.incarnations[name].state.terminal))


def doubtful(snapshot: Snapshot) -> tuple[str, ...]:
    """Return those of them whose last heartbeat is not of the last seconds."""
    return tuple(name for name in needed(snapshot) if not _fresh(snapshot, name))


def alive(
    snapshot: Snapshot,
    before: LagSample | None,
    again: Mapping[str, bool],
    drivers: Mapping[str, DriverState],
) -> dict[str, bool | None]:
    """Return what `revival_is_due` asks: True for a driver that lives, False for one that seems to be lost.

    A clock of another machine may be wrong: by it alone no driver that beats is taken for lost.

    :param before: the sample of the look before.
    :param again: by incarnation, whether its counter has grown between two reads of this look; without those that are
        not doubtful, and those whose second read did not answer.
    :param drivers: by deployment, the state of its driver as the cluster says.
    """
    state = snapshot.state
    found = {name: _alive(snapshot, name, before, again.get(name), drivers) for name in needed(snapshot)}
    if state.holder is None:
        found |= {d.id: False for d in coming_up(state) if d.id in drivers and _absent(drivers[d.id])}
    return found


def _absent(driver: DriverState) -> bool:
    """Whether the cluster shows no driver: it has ended, or was not sent, or was forgotten."""
    return driver.terminal or driver.reserved


def _fresh(snapshot: Snapshot, name: str) -> bool:
    beat = snapshot.heartbeats.get(name)
    return beat is not None and 0.0 <= snapshot.at - beat.at < FRESH_SECONDS


def _alive(
    snapshot: Snapshot,
    name: str,
    before: LagSample | None,
    again: bool | None,
    drivers: Mapping[str, DriverState],
) -> bool | None:
    beat, counter = snapshot.heartbeats.get(name), snapshot.counter(name)
    if again or _fresh(snapshot, name):
        return True
    driver = drivers.get(deployment_of(name))
    dead = driver is not None and _absent(driver)
    lease = snapshot.policy(deployment_of(name)).lease_seconds
    since = silent_since(before, name, counter)
    seen_silent = since is not None and snapshot.at - since >= silence_limit(lease)
    # The clocks tell something only of a counter that was seen to stand still.
    late = beat is not None and again is not None and snapshot.at - beat.at >= lease
    if beat is None or dead or seen_silent or late:
        return False
    return None

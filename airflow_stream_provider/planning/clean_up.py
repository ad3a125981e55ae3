"""Decide which files of a stream's folder are not needed any more. It decides only; `hooks.clean_up` removes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.state import StreamState

# How many of the last releases stay, and how many of the last that held the stream: what people go back to.
KEPT_RELEASES = 20


@dataclass(frozen=True)
class Stored:
    """The content of a stream's folder beside its log: heartbeats by incarnation, releases by hash."""

    heartbeats: frozenset[str] = frozenset()
    releases: frozenset[str] = frozenset()


def expendable(state: StreamState, idle: Stored) -> Stored:
    """Return what may go.

    Heartbeats stay of drivers that may act or must be fenced, and of the last holder. Releases stay of deployments that
    have not ended or must be fenced, of the last 20 declared, and of the last 20 that held the stream, to which a
    roll-back or the watch goes back: however many bad ones were tried since.

    :param idle: files that were not written for long: a driver that beats, or a release that is just being published,
        is not in it. It was listed before `state` was read, so that a driver in it was declared by then.
    """
    needed = {i.id for i in state.incarnations.values() if not i.state.terminal}
    needed.update(state.must_fence, (state.last_holder or "",))
    running = {state.incarnations[name].deployment for name in needed & state.incarnations.keys()}
    kept = {d.release.hash for d in state.deployments.values() if not d.ended or d.id in running}
    kept.update(_last(d.release.hash for d in reversed(list(state.deployments.values()))))
    kept.update(_last(state.deployments[i.deployment].release.hash for i in state.held))
    return Stored(idle.heartbeats - needed, idle.releases - kept)


def settled(state: StreamState) -> tuple[str, ...]:
    """Return the deployments whose drivers have all ended by the log, and are not to be fenced any more."""
    may_live = {i.deployment for i in state.incarnations.values() if not i.state.terminal or i.id in state.must_fence}
    # One whose driver was fenced is not ended by that: another one of it could come up.
    over = {i.deployment for i in state.incarnations.values()} | {d.id for d in state.deployments.values() if d.ended}
    return tuple(name for name in state.deployments if name in over - may_live)


def _last(hashes: Iterable[str]) -> list[str]:
    """Return the first 20 different ones."""
    return list(dict.fromkeys(hashes))[:KEPT_RELEASES]

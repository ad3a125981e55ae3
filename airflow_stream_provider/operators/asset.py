"""The stream as an asset: each change of its holder is an event, so that other DAGs can follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, Context
from airflow.sdk.exceptions import AirflowRuntimeError

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot


def stream_asset(name: str) -> Asset:
    """Return the asset of a stream, for ``schedule=[stream_asset("orders")]``: ``stream://NAME``.

    :param name: of the stream.
    """
    return Asset(name=f"stream://{name}", uri=f"stream://{name}")


def hand_overs(name: str) -> AssetAlias:
    """Return what tasks have as an outlet in place of the asset: only then may one succeed without an event."""
    return AssetAlias(f"stream://{name} hand-overs")


def event_of(snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts on the present holder for followers; empty when there is none.

    :param done: the XCom of the task, which may have measured the gap.
    :return: `stream`, `deployment`, `version`, `release` (its hash), `holder` (the driver), `epoch`, `gap_seconds` by
        query as far as it is known.
    """
    held = snapshot.state.holding_deployment
    if held is None:
        return {}
    return {
        "stream": snapshot.stream,
        "deployment": held.id,
        "version": held.release.version,
        "release": held.release.hash,
        "holder": snapshot.state.holder,
        "epoch": snapshot.state.epoch,
        "gap_seconds": dict(done.get("gap_seconds") or {}) if done.get("epoch") == snapshot.state.epoch else {},
    }


def announce(context: Context, snapshot: Snapshot, done: Mapping[str, Any]) -> None:
    """Let the task's success be an event of the stream's asset, unless the last event says the same already.

    So there is one for each hand-over, also after a task that was killed between hand-over and end, and none when a
    task is cleared that had ended.
    """
    outlets: Any = context.get("outlet_events")
    alias, event = hand_overs(snapshot.stream), event_of(snapshot, done)
    if outlets is None or not event:
        return
    if [event["epoch"], event["holder"]] != _last(context, alias):
        outlets[alias].add(stream_asset(snapshot.stream), extra=event)


def _last(context: Context, alias: AssetAlias) -> list[Any]:
    """Return epoch and holder of the last event; empty when there is none, or it cannot be read."""
    inlets: Any = context.get("inlet_events")
    try:
        events = list(inlets[alias].ascending(False).limit(1))
    except (AirflowRuntimeError, KeyError):
        # Told twice is better than a hand-over that fails for want of a database.
        return []
    return [[each.extra.get("epoch"), each.extra.get("holder")] for each in events][-1] if events else []

"""The state of the protocol at a moment: the rows of the table of what was simulated."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.state import RequestStage, StreamPhase
from tests.support.simulation.oracle import Oracle
from tests.support.simulation.world import World

STATES = {
    "running": "a driver holds, and no other is there",
    "submitted": "one holds, another comes up",
    "rehearsing": "one holds, another rehearses",
    "ready": "one holds, another is warm",
    "requested": "a hand-over is asked for",
    "answered": "the asked one has answered",
    "released": "the holder has released, and nobody has acquired",
    "acquired": "a driver has acquired, and has not committed yet",
    "stopping": "the holder is asked to stop",
    "starting": "nobody holds, one is appointed",
    "down": "nobody holds, and nobody asked for that",
    "stopped": "a person has stopped it, it has finished, or it never ran",
}


def protocol_state(world: World, oracle: Oracle) -> str:
    """Return the state by the log, and by what the drivers do."""
    state = oracle.state
    request = state.open_request
    if request is not None:
        if request.to is None:
            return "stopping"
        if request.stage is RequestStage.RELEASED:
            return "released"
        if request.source is None:
            return "starting"
        return "answered" if request.stage is RequestStage.READY else "requested"
    if state.holder is None:
        resting = state.phase in (StreamPhase.STOPPED, StreamPhase.FINISHED, StreamPhase.EMPTY)
        return "stopped" if resting else "down"
    if world.drivers[state.holder].queries.batch is None:
        return "acquired"
    others = [driver for name, driver in world.drivers.items() if name != state.holder and not driver.over]
    coming = [driver for driver in others if driver.incarnation not in state.incarnations]
    if coming:
        return "submitted" if coming[-1].agent is None else "rehearsing"
    return "ready" if others else "running"

"""What the seeds go by: policy, bounds in virtual seconds, and when faults come."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.planning.bring_up import MAX_PAUSE_SECONDS, ORPHANED_SECONDS
from airflow_stream_provider.planning.request import ANSWER_SECONDS
from tests.support.simulation.protocol_state import STATES
from tests.support.simulation.watching import LOOK_SECONDS

# Short leases and pauses: time costs turns.
POLICY = Policy(lease_seconds=6.0, pause_seconds=8.0, take_back_seconds=3.0, boundary_seconds=5.0)
# Every other deployment is more patient.
PATIENT = Policy(lease_seconds=9.0, pause_seconds=14.0, take_back_seconds=5.0, boundary_seconds=5.0)
# From the end of the faults until a driver holds and commits, in virtual seconds. At worst a look of the watch finds a
# dead driver appointed, its request has to expire, and it is fenced on a lost machine.
PROMPT = (
    3 * LOOK_SECONDS
    + 2 * (PATIENT.boundary_seconds + ANSWER_SECONDS)
    + 6 * PATIENT.lease_seconds
    + 2 * PATIENT.pause_seconds
)
# Only where the watch really pauses before another try, or a task has declared a deployment and died.
BOUND = PROMPT + MAX_PAUSE_SECONDS + ORPHANED_SECONDS
# From `released`, while the log can be had, until the releaser has taken the stream back when the other does not come.
TAKE_BACK_BOUND = PATIENT.take_back_seconds + PATIENT.lease_seconds
PHASES = 3
# By how much the clocks of two machines of Airflow differ.
CLOCKS_SECONDS = 40.0
# Nobody holds then, so no query runs.
CANNOT_HAPPEN = frozenset(
    (state, fault)
    for state in ("released", "starting", "down", "stopped")
    for fault in ("query fails", "query fails in a batch", "query fails curably", "query finishes")
)
# When faults come: at any time, or in a state of the protocol; what is over soon more often.
WHEN = ("", *STATES, "running", "submitted", "rehearsing", "answered", "answered", "released", "acquired", "starting")

"""Write into the control log that a person ends a job without a stream, or leaves it to run on."""

from __future__ import annotations

from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.planning.adopt import ask_for_the_end, left_to_another
from airflow_stream_provider.planning.steps import TaskIdentity


def is_to_end(hook: StreamHook, identity: TaskIdentity, deployment: str, reason: str) -> None:
    """Write that a person is about to be asked to end the job, before that: the watch tells if no driver follows it
    then.

    :raises ControlUnavailable: not written or unknown.
    """
    while True:
        snapshot = hook.observe(history=False)
        step = ask_for_the_end(snapshot, deployment, reason)
        if step is None or hook.append(step.kind, identity.by, snapshot.state.seq, **step.fields):
            return


def runs_on(hook: StreamHook, identity: TaskIdentity, deployment: str, reason: str) -> None:
    """Write that the job runs on by a person's word: no driver is to hold the stream.

    Nothing is written where another run or command has brought up the deployment, and may ask a person still.

    :raises ControlUnavailable: not written or unknown.
    """
    while True:
        state = hook.observe(history=False).state
        if state.job is None or state.open_request is not None or left_to_another(state, deployment, identity):
            return
        fields = {"request": identity.request("runs-on", state.seq), "reason": reason}
        if hook.append(Kind.STOPPED, identity.by, state.seq, **fields):
            return

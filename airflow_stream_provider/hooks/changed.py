"""Whether what a stream's YAML asks for is due though no person has asked: for `upgrade.on_change` and its schedule."""

from __future__ import annotations

from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP
from airflow_stream_provider.hooks.compare import compare_with
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import Deployment, StreamPhase, StreamState
from airflow_stream_provider.planning.descent import asked_for_last
from airflow_stream_provider.planning.stop import stopped_by_another
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec

# They differ once this provider was upgraded: that is no wish to upgrade every stream at once.
_OURS = {"release", f"files.{LAUNCHER}", f"files.{RUNTIME_ZIP}"}


def unasked_release(hook: StreamHook, state: StreamState, spec: StreamSpec) -> str:
    """Return a name of the wish when an upgrade to the YAML's release is due; empty when it is not.

    The name is the same as long as the YAML asks for this release after the same one: an upgrade that could not even
    begin is not started again and again.

    It is compared with what was asked for last, not with what holds: a release that was refused or rolled back is not
    tried again until something changes. Only while the stream runs and no change of holder is under way.

    :raises StreamError: no release can be made of the YAML, or the stored files of the other one cannot be read.
    """
    newest = asked_for_last(state)
    if newest is None or state.phase is not StreamPhase.RUNNING or state.open_request is not None:
        return ""
    wanted, another, problem = _compared(hook, newest, spec)
    return f"{wanted.hash[:16]}__{newest.id}" if another and not problem else ""


def refuse_unasked(hook: StreamHook, state: StreamState, spec: StreamSpec, run: str) -> None:
    """Check that an upgrade may begin which `upgrade.schedule` or `upgrade.on_change` has triggered, and no person.

    Such a run may have waited for long, say in a DAG that was paused.

    :param run: that carries it out; see `TaskIdentity.run`. Its own steps from before it was cleared are no reason.
    :raises StreamError: the stream was stopped, or never ran; or the YAML asks for a release that was refused, or that
        somebody went back from; or as `unasked_release`.
    """
    by_hand = "To have it all the same, trigger this DAG by hand."
    stopped = stopped_by_another(state, run)
    if stopped:
        raise StreamError(
            f"The stream was stopped by {stopped}, and only a person starts it.",
            next_step=f"Nothing was touched. {by_hand}",
        )
    newest, held = asked_for_last(state), state.last_deployment
    if newest is None or held is None:
        raise StreamError(
            "No driver has held the stream yet, and only a person starts it: a job may write its checkpoints that is "
            "to be adopted.",
            next_step=f"Nothing was touched. {by_hand}",
        )
    if newest.release.hash == held.release.hash or newest.declared.by.startswith(run):
        return
    _, another, problem = _compared(hook, newest, spec)
    if another:
        return
    asks = "Nobody can tell whether the YAML asks for anything but" if problem else "The YAML asks for"
    raise StreamError(
        f"{asks} release {newest.release.version} ({newest.id}), which was refused, or which somebody went back from: "
        f"{held.release.version} ({held.id}) held last. Only a person brings it again. {problem}".rstrip(),
        next_step=f"Nothing was touched. Correct the release, or write what holds into the YAML. {by_hand}",
    )


def _compared(hook: StreamHook, newest: Deployment, spec: StreamSpec) -> tuple[Release, bool, str]:
    """Return the YAML's release, whether it is another one than a deployment's, and why the files are not compared."""
    wanted, files = RequestedRelease.of(spec).make()
    found, problem = compare_with(hook, newest, spec, wanted, files)
    return wanted, any(each.field not in _OURS for each in found), problem

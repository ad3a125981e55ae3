"""Whether a stream's YAML asks for what nobody has tried yet, for `upgrade.on_change`."""

from __future__ import annotations

from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP
from airflow_stream_provider.hooks.compare import compare_with
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.planning.descent import asked_for_last
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
    wanted, files = RequestedRelease.of(spec).make()
    found, problem = compare_with(hook, newest, spec, wanted, files)
    due = not problem and any(each.field not in _OURS for each in found)
    return f"{wanted.hash[:16]}__{newest.id}" if due else ""

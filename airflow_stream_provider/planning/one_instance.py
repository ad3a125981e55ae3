"""Whether more of a stream runs than drivers of its control log. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.begun import FOLLOW_FIRST, job_first
from airflow_stream_provider.planning.preflight import Finding


def other_instances(state: StreamState, running: Mapping[str, str]) -> list[Finding]:
    """Return what the cluster runs for a stream besides the drivers that its control log knows to live.

    One of a deployment that the log has never had is refused: it is not known what it does, and a log that was put back
    from an older copy would look the same. One that has ended by the log writes nothing, and exits once it reads that.

    :param running: by an id of the cluster's the deployment, of this control log alone (`Cluster.running`).
    """
    found, seen = [], dict[str, str]()
    for id, deployment in sorted(running.items()):
        known = state.deployments.get(deployment)
        if known is None and deployment not in state.forgotten:
            found.append(
                Finding(
                    f"The cluster runs {id} for this stream, of the deployment {deployment}, and the control log has "
                    "none of that name.",
                    next_step=f"Find out who has started it, and whether the control log was put back from an older "
                    f"copy; end {id} on the cluster. Then trigger again.",
                    refuses=True,
                )
            )
        elif known is None or known.ended:
            how = known.ended.value if known is not None and known.ended else "ended long ago"
            found.append(
                Finding(
                    f"The cluster still runs {id} of {deployment}, which is {how} by the control log.",
                    next_step=f"It exits once it reads that. If it is still there in a minute, end {id} there.",
                )
            )
        elif deployment in seen:
            found.append(
                Finding(
                    f"The cluster runs two drivers of {deployment}: {seen[deployment]} and {id}. One of them holds or "
                    "stands by; the other one was relaunched, or was submitted twice.",
                    next_step="`airflow streams status` names the one that is known: end the other one on the cluster.",
                )
            )
        seen[deployment] = id
    return found


def job_beside(state: StreamState) -> list[Finding]:
    """Return that a job without a stream is about to be adopted, and not confirmed gone."""
    job = job_first(state)
    return [Finding(job, FOLLOW_FIRST, refuses=True)] if job else []

"""Submit a declared deployment exactly once, however many tasks try it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow_stream_provider.clusters import Cluster, Job, SubmitUnclear, status_of
from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.drivers import is_stranger, may_be_unsent
from airflow_stream_provider.lifecycle.ids import application_name
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.snapshot import submission_of


def job_of(
    root: ControlRoot,
    stream: str,
    folder: Path | None,
    deployment: str,
    release: Release,
    where: str,
    *,
    log: str = "",
) -> Job:
    """Return what the cluster is asked to run for a deployment.

    :param root: where the control log lives.
    :param folder: the stream's control folder; None: there is none.
    :param where: path or URL of the folder of the release's files.
    :param log: what tells the control log from any other (`Store.origin`). Default: not known.
    """
    launcher = [*way_to_log(root), "--stream", stream, "--deployment", deployment]
    if "://" in where:
        launcher += ["--storage", release.storage, "--release", release.hash]
    return Job(
        stream=stream,
        deployment=deployment,
        app_name=application_name(stream, release.version, deployment, log),
        release_dir=where,
        stream_folder="" if folder is None else str(folder),
        arguments=(*launcher, "--", release.application, *release.arguments),
        py_files=release.py_files,
        log=log,
        conf=release.conf,
        environment=release.environment,
    )


def way_to_log(root: ControlRoot) -> tuple[str, ...]:
    """Return the launcher's arguments by which a driver reaches its control log."""
    return ("--control", root.url, *root.driver_arguments())


def submit_once(
    log: ControlLog,
    cluster: Cluster,
    job: Job,
    by: str,
    *,
    first: bool,
    verify: Callable[[], object],
    connection: str = "",
) -> bool:
    """Make sure that a declared deployment has exactly one submission.

    Where the cluster reserves ids, the id is in the log before anything is sent, and every try sends that one: a task
    that finds an id in the log without a driver on the cluster sends it, as its author may have died before that.

    :param connection: Airflow connection of the cluster, for the record.
    :param first: the caller has just declared the deployment, so it cannot have been submitted before. Otherwise an
        earlier try may have died between submitting and recording it, and the heartbeats and the cluster are asked
        first (rule 5).
    :param verify: called right before the submission; raises StreamError when the files of the release have changed.
    :return: False when the cluster cannot tell yet whether it was submitted: ask again later.
    :raises StreamError: as `verify`; nothing new runs.
    :raises ClusterError: the cluster refused or does not answer; nothing new runs.
    """
    deployment = log.refresh().deployments[job.deployment]
    recorded = deployment.submission
    unsent = bool(recorded) and may_be_unsent(log, job.deployment) and status_of(cluster, recorded).reserved
    if deployment.ended or (recorded and not unsent):
        return True

    def note(submission: str) -> str:
        return _record(log, job.deployment, submission, by, connection)

    if not first and not unsent:
        known = submission_of(job.deployment, log.state, log.heartbeats(job.deployment))
        if not known or is_stranger(cluster, known, job.whose):
            found = cluster.find(job.whose, deployment.declared_at, job.conf)
            if not found.alive and not found.certain:
                return False
            # One that has ended counts too: the caller must see its death, and a second one would hide it.
            known = next(iter((*found.alive, *found.ended)), "")
        if known:
            note(known)
            return True
    verify()
    try:
        submission = cluster.submit(job, note)
    except SubmitUnclear:
        return False
    if note(submission) != submission:
        # Another try of this task submitted at the same moment and was first in the log: this one is the duplicate.
        cluster.kill(submission)
    return True


def _record(log: ControlLog, deployment: str, submission: str, by: str, connection: str) -> str:
    """Append `submitted` unless one is there; return the submission that counts."""
    record = make_record(Kind.SUBMITTED, by, deployment=deployment, submission=submission, cluster=connection)

    def build(state: StreamState) -> Record | None:
        return None if state.deployments[deployment].submission else record

    return log.propose(build).deployments[deployment].submission

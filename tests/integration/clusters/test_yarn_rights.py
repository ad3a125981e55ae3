"""A real YARN whose rights are on: they are off by default, and then everybody may do everything."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import ClusterConnection, DriverState, open_cluster, status_of
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import wait_for
from devstack.processes import Processes
from devstack.yarn import Yarn
from tests.support.places import Place

pytestmark = pytest.mark.system
QUEUE = "yarn.scheduler.capacity.root"
# A queue has its parent's rights, too; that of all queues lets everybody in, unless it says otherwise. A space: nobody.
RIGHTS = {
    "yarn.acl.enable": "true",
    "yarn.admin.acl": "admin",
    f"{QUEUE}.acl_submit_applications": " ",
    f"{QUEUE}.acl_administer_queue": " ",
    f"{QUEUE}.default.acl_submit_applications": "streams",
    f"{QUEUE}.default.acl_administer_queue": "boss",
    f"{QUEUE}.narrow.acl_submit_applications": "others",
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Place]:
    """A YARN on which the user `streams` may submit to one queue."""
    with contextlib.closing(Processes(tmp_path / "logs")) as processes:
        yarn = Yarn(tmp_path / "yarn", processes, settings=RIGHTS)
        yarn.start()
        connection = ClusterConnection("yarn", extra=yarn.connection["extra"], login="streams")
        conf = {"spark.executor.instances": "1"}
        yield Place(open_cluster(connection), connection, tmp_path, conf=conf, needs_session=True)


def test_a_user_does_what_its_rights_allow_and_is_told_of_the_rest(guarded: Place) -> None:
    job = guarded.job()
    guarded.cluster.check(job)
    submission = guarded.cluster.submit(job)
    guarded.facts(job, submission)
    assert guarded.cluster.find(job.whose, 0.0).alive == (submission,)

    narrow = dataclasses.replace(guarded.connection, extra={**guarded.connection.extra, "queue": "narrow"})
    with pytest.raises(ClusterError, match="refused the driver: User streams does not have permission") as told:
        open_cluster(narrow).submit(guarded.job())
    assert "\n" not in told.value.message
    stranger = open_cluster(dataclasses.replace(guarded.connection, login="stranger"))
    with pytest.raises(ClusterError, match="stranger"):
        stranger.kill(submission)
    assert status_of(guarded.cluster, submission) is DriverState.RUNNING

    # Who administers a queue may submit to it as well, and kill what others have submitted.
    administrator, another = open_cluster(dataclasses.replace(guarded.connection, login="boss")), guarded.job()
    administrator.check(another)
    both = {submission: job, administrator.submit(another): another}
    for each in both:
        administrator.kill(each)
    wait_for("both to be gone", lambda: all(administrator.remains(each, of.whose).gone for each, of in both.items()))

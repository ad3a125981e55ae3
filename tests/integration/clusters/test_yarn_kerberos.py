"""A real YARN and a real HDFS with a real KDC: SPNEGO, and drivers that spark-submit brings with delegation tokens."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import importlib.util
import random
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_stream_provider.clusters import ClusterConnection, DriverState, Job, open_cluster, status_of, yarn_api
from airflow_stream_provider.clusters import yarn_api as yarn_submission
from airflow_stream_provider.clusters.connection import YarnSettings
from airflow_stream_provider.clusters.yarn_api import is_submission
from airflow_stream_provider.clusters.yarn_request import deployment_tag
from airflow_stream_provider.hooks.submit import submit_once
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import lives, wait_for
from devstack.kdc import REALM, Kdc
from devstack.processes import Processes
from devstack.yarn_kerberos import PRINCIPALS, USER, KerberosYarn, kerberos_hdfs
from tests.support.control_root import new_log
from tests.support.fake_yarn import FakeYarn
from tests.support.jobs import noted
from tests.support.keytabs import in_base64, keytab
from tests.support.places import Place, processes_of
from tests.support.story import declared, write
from tests.support.submitter import let_go, once

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(importlib.util.find_spec("gssapi") is None, reason="no gssapi: run `make test-kerberos`"),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosYarn]:
    folder = tmp_path_factory.mktemp("kerberos")
    with contextlib.closing(Processes(folder / "logs")) as processes, pytest.MonkeyPatch.context() as patch:
        kdc = Kdc(folder / "kdc", processes, PRINCIPALS)
        kdc.start()
        patch.setenv("KRB5_CONFIG", str(kdc.conf))
        hdfs = kerberos_hdfs(folder / "hdfs", processes, kdc)
        hdfs.start()
        yarn = KerberosYarn(folder / "yarn", processes, kdc, hdfs)
        yarn.start()
        for name, value in yarn.environment.items():
            patch.setenv(name, value)
        yield yarn


@pytest.fixture
def place(secured: KerberosYarn, tmp_path: Path) -> Place:
    fields = secured.connection
    connection = ClusterConnection("yarn", extra=fields["extra"])
    options = f"-Djava.security.krb5.conf={secured.kdc.conf} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    conf = {
        "spark.executor.instances": "1",
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        # Written to HDFS, which lets nobody in without a token. The folder is there once a driver was staged.
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"{secured.hdfs.url}/user",
    }
    return Place(open_cluster(connection), connection, tmp_path, conf=conf, needs_session=True)


def through(place: Place, **extra: str) -> ClusterConnection:
    return dataclasses.replace(place.connection, extra={**place.connection.extra, **extra})


def applications(place: Place, job: Job) -> list[str]:
    """Return all that YARN has ever had of a deployment."""
    manager = yarn_api.find_active(YarnSettings.of(place.connection))
    return [app["id"] for app in yarn_api.applications(manager, applicationTags=deployment_tag(job.deployment))]


def test_a_proof_is_asked_for_and_given_both_ways(secured: KerberosYarn, place: Place) -> None:
    settings = YarnSettings.of(place.connection)
    nodes = yarn_api.nodes(yarn_api.find_active(settings))
    assert [node["state"] for node in nodes] == ["RUNNING"] * 2
    for url in (f"{secured.web_url}/ws/v1/cluster/info", f"http://{nodes[0]['nodeHTTPAddress']}/ws/v1/node/info"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url)
        assert (refused.value.code, refused.value.headers["WWW-Authenticate"]) == (401, "Negotiate")
        assert yarn_api.send("GET", url, settings).status == 200
    place.cluster.check(place.job())


def test_who_does_not_prove_who_it_is_is_not_believed(secured: KerberosYarn, place: Place) -> None:
    with contextlib.closing(FakeYarn()) as fake:
        elsewhere = fake.url.replace("127.0.0.1", "localhost")
        with pytest.raises(ClusterError, match="did not prove by Kerberos who it is"):
            open_cluster(through(place, yarn_resourcemanager_webapp_address=elsewhere)).check(place.job())


def test_what_kerberos_refuses_is_one_sentence(secured: KerberosYarn, place: Place) -> None:
    job = place.job()
    nameless = ClusterConnection("yarn", extra={**place.connection.extra, "principal": "", "keytab": ""}, login=USER)
    with pytest.raises(ClusterError, match=r"answered HTTP 401, and wants Kerberos\. Write principal and keytab"):
        open_cluster(nameless).check(job)
    another = keytab(USER, key=b"x" * 16)
    with pytest.raises(
        ClusterError, match=r"gets no Kerberos ticket for HTTP/localhost: .*Decrypt integrity check failed"
    ):
        open_cluster(through(place, keytab=in_base64(another))).check(job)
    # The KDC has an aes128 key of it.
    of_another_type = keytab(USER, key=b"x" * 32)
    with pytest.raises(ClusterError, match=r"gets no Kerberos ticket for HTTP/localhost: Key table entry.*all of them"):
        open_cluster(through(place, keytab=in_base64(of_another_type))).check(job)
    with pytest.raises(ClusterError, match="No key table entry found for nobody@"):
        open_cluster(through(place, principal=f"nobody@{REALM}")).check(job)
    unknown = in_base64(keytab("nobody"))
    with pytest.raises(ClusterError, match=r"nobody@.* gets no Kerberos ticket"):
        open_cluster(through(place, principal=f"nobody@{REALM}", keytab=unknown)).check(job)
    # Of 127.0.0.1 MIT's library finds the name by itself, of this one it does not.
    elsewhere = place.connection.extra["yarn_resourcemanager_webapp_address"].replace("localhost", "127.0.0.2")
    with pytest.raises(ClusterError, match=r"gets no Kerberos ticket for HTTP/127\.0\.0\.2: Server not found in"):
        open_cluster(through(place, yarn_resourcemanager_webapp_address=elsewhere)).check(job)
    assert applications(place, job) == []


def test_a_kdc_that_is_away_is_said_in_time_and_tickets_at_hand_go_on(secured: KerberosYarn, place: Place) -> None:
    assert secured.kdc.process is not None
    place.cluster.check(place.job())
    # The same keys in another file: its tickets are not at hand.
    fresh = place.connection.extra["keytab"]
    fresh = in_base64(base64.b64decode(fresh) + bytes(4))
    secured.kdc.process.signal(signal.SIGSTOP)
    try:
        place.cluster.check(place.job())
        with pytest.raises(ClusterError, match="no KDC has answered within 10 s") as refused:
            open_cluster(through(place, keytab=fresh)).check(place.job())
        assert "krb5.conf" in refused.value.next_step
    finally:
        secured.kdc.process.signal(signal.SIGCONT)


def test_a_driver_comes_with_tokens_and_goes(
    secured: KerberosYarn, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    job, since = place.job(), time.time()
    with caplog.at_level("INFO"):
        seen: list[DriverState] = []

        def note(id: str) -> str:
            seen.append(status_of(place.cluster, id))
            return id

        id = place.cluster.submit(job, note)
        assert is_submission(id)
        assert seen == [DriverState.RESERVED]
    assert place.connection.extra["keytab"] not in caplog.text
    (application,) = applications(place, job)
    assert place.cluster.find(job.whose, since).alive == (application,)
    assert place.cluster.submit(job, noted(id)) == open_cluster(place.connection).submit(job, noted(id)) == id
    facts = place.facts(job, id)
    assert facts
    assert status_of(place.cluster, id) is DriverState.RUNNING
    processes = processes_of(job.deployment)
    assert processes
    place.end(id, job)
    assert status_of(place.cluster, id) is DriverState.KILLED
    assert not any(map(lives, processes))
    assert applications(place, job) == [application]


def test_a_queue_that_is_not_there_is_said_by_spark_submit_too(place: Place) -> None:
    with pytest.raises(ClusterError, match="has no queue 'nowhere'"):
        open_cluster(through(place, queue="nowhere")).check(place.job())
    with pytest.raises(ClusterError, match=r"(spark-submit has not submitted|YARN has refused).*nowhere"):
        open_cluster(through(place, queue="nowhere")).submit(place.job())


def test_a_task_that_is_killed_at_any_moment_leaves_one_driver_or_none(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    # What the kernel kills with its task needs no bound. The real one would make the test last.
    monkeypatch.setattr(yarn_submission, "COME_SECONDS", 90.0)
    first, began, came = place.job(), time.monotonic(), 0
    submission = place.cluster.submit(first)
    takes = time.monotonic() - began
    place.end(submission, first)
    for number in range(4):
        job = place.job()
        control = f"file://{place.root / f'control-{number}'}"
        log = new_log(control)
        write(log, declared(job.deployment))
        task = once(place.connection, job, control)
        let_go(task)
        wait_for("its id to be in the log", lambda: log.refresh().deployments[job.deployment].submission)  # noqa: B023
        # One in each quarter of one and a half times of what a submission takes here.
        time.sleep((number + chance.random()) / 4 * 1.5 * takes)
        task.kill()
        task.wait()
        recorded = log.refresh().deployments[job.deployment].submission
        wait_for("spark-submit to end with it", lambda: not submitting(recorded))  # noqa: B023

        def retry(log=log, job=job) -> bool:  # type: ignore[no-untyped-def]
            return submit_once(log, place.cluster, job, "test", first=False, verify=lambda: None)

        wait_for("the retry to be certain", retry)
        found = applications(place, job)
        assert len(found) == (status_of(place.cluster, recorded) is not DriverState.LOST)
        assert log.refresh().deployments[job.deployment].submission == recorded
        came += len(found)
        if found:
            place.end(recorded, job)
    print(f"{came} of 4 had come; a submission takes {takes:.0f} s")


def submitting(id: str) -> list[int]:
    """Return the processes of this machine that submit an id; a driver has no keytab in its command."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            if "--keytab" in line and any(id in word for word in line) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found

"""Drivers on a YARN with Kerberos: one submission of each tag, whoever dies when.

A ResourceManager over real HTTP stands in for the real one, without Kerberos; a script for spark-submit. With the real
ones: tests/integration/clusters/test_yarn_kerberos.py.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.clusters import (
    ClusterConnection,
    DriverState,
    FoundDrivers,
    Remains,
    SubmitUnclear,
    open_cluster,
    status_of,
    yarn_applications,
    yarn_kerberos,
)
from airflow_stream_provider.clusters import yarn as base
from airflow_stream_provider.clusters.connection import KerberosLogin, YarnSettings
from airflow_stream_provider.clusters.yarn_api import COME_SECONDS, made_at, new_submission
from airflow_stream_provider.clusters.yarn_kerberos import KerberosYarnCluster
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.fake_yarn import ID, STARTED, WHOSE, FakeYarn
from tests.support.jobs import job, noted
from tests.support.keytabs import in_base64, keytab
from tests.support.pretended_spark_submit import Pretended

LOGIN = KerberosLogin("alice@EXAMPLE.COM", keytab("alice"))
JOB = job(log=WHOSE.log)


@pytest.fixture
def secured(fake: FakeYarn) -> KerberosYarnCluster:
    return secured_by(fake)


def secured_by(fake: FakeYarn) -> KerberosYarnCluster:
    """Return the cluster as another process has it; the stand-in is asked without Kerberos."""
    return KerberosYarnCluster(YarnSettings.of(fake.connection()), LOGIN)


def at(moment: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (yarn_applications, yarn_applications):
        monkeypatch.setattr(module.time, "time", lambda: moment)


def test_a_connection_with_a_principal_and_a_keytab_is_one_to_it(fake: FakeYarn) -> None:
    connection = fake.connection(principal="alice@EXAMPLE.COM", keytab=in_base64(LOGIN.keytab))
    found = open_cluster(ClusterConnection("yarn", extra=connection.extra))
    assert isinstance(found, KerberosYarnCluster)
    assert (found._login, found._settings.user) == (LOGIN, "alice")
    assert in_base64(LOGIN.keytab) not in repr(connection) + repr(found._settings)


def test_a_driver_is_sent_once_and_known_by_its_tag(
    fake: FakeYarn, secured: KerberosYarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended = Pretended.install(tmp_path, monkeypatch, to=fake.url)
    fake.add_node()
    seen: list[tuple[DriverState, int]] = []

    def note(id: str) -> str:
        seen.append((status_of(secured, id), fake.handed_out))
        return id

    id = secured.submit(JOB, note)
    assert seen == [(DriverState.RESERVED, 0)]
    assert secured.submit(JOB, noted(id)) == secured_by(fake).submit(JOB, noted(id)) == id
    assert len(pretended.calls) == 1
    assert status_of(secured, id) is DriverState.RUNNING
    assert secured.look([id, ID])[id].links["YARN"] == f"{fake.url}/cluster/app/{ID}"
    assert secured.find(WHOSE, made_at(id)) == FoundDrivers((ID,))
    assert secured.look([id], WHOSE)[id].ours
    assert secured.remains(id, WHOSE).alive == (f"Application {ID} is ACCEPTED.",)
    secured.kill(id)
    assert fake.apps[ID]["state"] == "KILLED"
    assert secured.remains(id, WHOSE).gone


def test_a_tag_is_sent_by_nobody_but_who_has_made_it(
    fake: FakeYarn, secured: KerberosYarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended = Pretended.install(tmp_path, monkeypatch, to=fake.url)
    id = new_submission(time.time())
    with pytest.raises(SubmitUnclear, match="should it be on its way, it can come for"):
        secured_by(fake).submit(JOB, noted(id))
    assert pretended.calls == []


@pytest.mark.parametrize(("clock_set", "longest"), [(0.0, 240.0), (-3600.0, 240.0), (100.0, 140.0), (3600.0, -3360.0)])
def test_spark_submit_never_has_longer_than_its_bound_however_the_clock_is_set_meanwhile(
    secured: KerberosYarnCluster, monkeypatch: pytest.MonkeyPatch, clock_set: float, longest: float
) -> None:
    left: list[float] = []
    monkeypatch.setattr(yarn_kerberos, "run", lambda *given: left.append(given[-1] - time.monotonic()))
    monkeypatch.setattr(secured, "_wait_until_taken", lambda id: {})
    real = time.time

    def note(id: str) -> str:
        monkeypatch.setattr("airflow_stream_provider.clusters.yarn_kerberos.time.time", lambda: real() + clock_set)
        return id

    secured.submit(JOB, note)
    assert longest - 60 < left[0] <= longest


def test_what_has_not_come_within_the_bound_never_comes(
    fake: FakeYarn, secured: KerberosYarnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.add_node()
    id = new_submission(time.time())
    assert secured.remains(id, WHOSE) == Remains((f"{id} may be on its way to YARN still.",))
    at(made_at(id) + COME_SECONDS, monkeypatch)
    assert status_of(secured, id) is DriverState.LOST
    assert secured.remains(id, WHOSE) == Remains()
    with pytest.raises(SubmitUnclear):
        secured_by(fake).submit(JOB, noted(id))


def test_a_resource_manager_that_was_started_anew_may_have_forgotten_it(
    fake: FakeYarn, secured: KerberosYarnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.add_node()
    id = new_submission(STARTED / 1000 - 60)
    assert secured.remains(id, WHOSE).lost == (f"The ResourceManager was started anew, and does not know {id}.",)
    assert secured.remains(new_submission(STARTED / 1000 + 60), WHOSE) == Remains()


def test_one_that_failed_and_was_sent_all_the_same_counts(
    fake: FakeYarn, secured: KerberosYarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pretended.install(tmp_path, monkeypatch, to=fake.url, code=1)
    assert status_of(secured, secured.submit(JOB)) is DriverState.RUNNING


def test_one_that_failed_is_told_and_not_tried_again(
    fake: FakeYarn, secured: KerberosYarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended = Pretended.install(tmp_path, monkeypatch, code=1)
    made: list[str] = []

    def note(id: str) -> str:
        made.append(id)
        return made[0]

    for error in (ClusterError, SubmitUnclear):
        with pytest.raises(error, match="spark-submit has not submitted" if error is ClusterError else "YARN has no"):
            secured.submit(JOB, note)
    assert len(pretended.calls) == 1


def test_one_that_yarn_takes_its_time_for_is_unclear(
    fake: FakeYarn, secured: KerberosYarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "TAKEN_SECONDS", 0.5)
    Pretended.install(tmp_path, monkeypatch)
    with pytest.raises(SubmitUnclear, match="does not show it after"):
        secured.submit(JOB)


def test_an_id_of_before_the_cluster_had_kerberos_is_not_sent(secured: KerberosYarnCluster) -> None:
    with pytest.raises(ClusterError, match="was reserved while the cluster's connection had no principal"):
        secured.submit(JOB, noted(ID))


def test_what_is_missing_here_is_said_before_anybody_is_asked(
    fake: FakeYarn, secured: KerberosYarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ClusterError, match="gssapi cannot be imported"):
        secured.check(JOB)
    checked: list[Any] = []
    monkeypatch.setattr("airflow_stream_provider.clusters.kerberos.check", checked.append)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(ClusterError, match="HADOOP_CONF_DIR is not set"):
        secured.check(JOB)
    assert (checked, fake.asked) == ([LOGIN], [])
    Pretended.install(tmp_path, monkeypatch)
    fake.add_node()
    fake.add_node()
    secured.check(JOB)
    assert all(each.startswith("GET ") for each in fake.asked)

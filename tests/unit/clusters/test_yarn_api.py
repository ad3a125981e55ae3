"""What is asked of YARN, and which of several ResourceManagers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from airflow_stream_provider.clusters import SubmitUnclear
from airflow_stream_provider.clusters import yarn_api as api
from airflow_stream_provider.clusters.connection import ADDRESS, YarnSettings
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.fake_yarn import ID, STARTED, FakeYarn


@pytest.fixture
def other() -> Iterator[FakeYarn]:
    found = FakeYarn()
    yield found
    found.close()


def manager(*fakes: FakeYarn) -> api.Manager:
    addresses = ",".join(fake.url for fake in fakes)
    return api.find_active(YarnSettings.of(fakes[0].connection(**{ADDRESS: addresses})))


def test_the_active_one_of_several_is_asked(fake: FakeYarn, other: FakeYarn) -> None:
    fake.info["haState"] = "STANDBY"
    other.info["startedOn"] = 7
    found = manager(fake, other)
    assert (found.url, found.started, found.settings.user) == (other.url, 7, "alice")
    assert found.handed_out("application_7_0001")
    assert not found.handed_out(ID)
    assert other.asked == ["GET info"]


def test_one_that_hangs_is_not_waited_for(fake: FakeYarn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "TIMEOUT", 3600.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = f"http://127.0.0.1:{silent.getsockname()[1]},{fake.url}"
        assert api.find_active(YarnSettings.of(fake.connection(**{ADDRESS: addresses}))).url == fake.url


def test_one_that_is_not_active_any_more_leaves_it_unclear(fake: FakeYarn) -> None:
    found = manager(fake)
    fake.answers["POST apps"] = (307, {})
    with pytest.raises(SubmitUnclear, match="is not the active one any more"):
        api.submit(found, {"application-id": ID})


def test_each_one_says_why_it_is_not_asked(fake: FakeYarn, other: FakeYarn) -> None:
    fake.info["haState"] = "STANDBY"
    other.answers["GET info"] = (401, {})
    with pytest.raises(ClusterError) as refused:
        manager(fake, other)
    assert f"{fake.url} is STANDBY (STARTED); {other.url} answered HTTP 401, and wants Kerberos" in str(refused.value)
    assert "Write principal and keytab" in refused.value.next_step
    other.answers["GET info"] = (200, {"status": "ALIVE"})
    with pytest.raises(ClusterError, match="is not a ResourceManager's web address"):
        manager(other)


def test_its_clock_is_read(fake: FakeYarn) -> None:
    assert abs(manager(fake).clock_ahead) < 60


def test_an_answer_that_is_lost_leaves_it_unclear(fake: FakeYarn) -> None:
    found = manager(fake)
    fake.close()
    with pytest.raises(ClusterError, match="cannot be reached") as refused:
        api.submit(found, {"application-id": ID})
    assert not isinstance(refused.value, SubmitUnclear), "it was certainly not sent"


@pytest.mark.parametrize(
    ("id", "is_one"),
    [(ID, True), ("application_1", False), ("driver-1", False), ("application_a_1", False), ("", False)],
)
def test_what_yarn_would_refuse_as_an_id_is_not_asked(fake: FakeYarn, id: str, is_one: bool) -> None:
    found = manager(fake)
    assert api.is_application(id) is is_one
    assert api.application(found, id) is None
    assert len(fake.asked) == 1 + is_one


def test_nothing_is_an_empty_list(fake: FakeYarn) -> None:
    assert api.applications(manager(fake), applicationTags="x") == []
    assert api.nodes(manager(fake)) == []
    assert api.new_application(manager(fake)) == f"application_{STARTED}_0001"

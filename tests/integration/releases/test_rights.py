"""Releases in a bucket by a key that may not do all: refused in one sentence, and nothing is declared."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.releases.open_place import open_place
from airflow_stream_provider.releases.place import ReleasePlace
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.s3 import BUCKET, S3Server, moto
from tests.support.deployed import deploy
from tests.support.releases import connection_of, release_of
from tests.support.s3_rights import EVERYTHING, READ, check_rights, with_rights

STORAGE = f"s3a://{BUCKET}/team"
Users = dict[str, S3Server]


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with moto(tmp_path_factory.mktemp("s3")) as server:
        found = {
            "all": with_rights(server, *EVERYTHING),
            "read": with_rights(server, *READ),
            "list": with_rights(server, "s3:List*"),
            "write": with_rights(server, "s3:Put*"),
            "nothing": with_rights(server),
        }
        found["unknown"] = dataclasses.replace(found["all"], login="AKIAIOSFODNN7EXAMPLE")
        found["wrong password"] = dataclasses.replace(found["all"], password="a-wrong-one")
        check_rights(server)
        yield found


def place_of(user: S3Server) -> ReleasePlace:
    return open_place(STORAGE, connection_of(user.connection), "orders", None)


@pytest.mark.parametrize(
    ("who", "cannot"),
    [
        ("read", "written"),
        ("list", "written"),
        ("write", "read"),
        ("nothing", "read"),
        ("unknown", "read"),
        ("wrong password", "read"),
    ],
)
def test_a_key_without_rights_publishes_nothing(
    users: Users, tmp_path: Path, who: str, cannot: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    release, files = release_of(tmp_path, f"# {who}\n")
    with pytest.raises(SpecError) as found:
        place_of(users[who]).publish(release, files)
    assert f"The storage {STORAGE}/orders/releases cannot be {cannot}: access is denied. Give the" in str(found.value)
    assert users[who].password not in f"{found.value!r} {found.value.fields} {caplog.text}"
    place_of(users["all"]).publish(release, files)
    if who == "read":
        place_of(users[who]).verify(release)
        return
    with pytest.raises(SpecError, match=r"cannot be read: access is denied\."):
        place_of(users[who]).verify(release)


def test_a_release_that_cannot_be_published_is_not_wished_for(
    users: Users, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a driver that holds the stream sees nothing of it."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("AIRFLOW_CONN_READS", json.dumps(users["read"].connection))
    control = (tmp_path / "control").as_uri()
    make_root(control)
    hook = StreamHook("orders", control, "spark_here", storage=STORAGE, storage_connection="reads")
    hook.create()
    release_of(tmp_path)
    spec = StreamSpec.model_validate(
        {"name": "orders", "application": "app.py", "version": "1", "cluster": "spark_here", "control": control}
    )
    spec._source = tmp_path / "streams" / "orders.yaml"
    requested = RequestedRelease.of(spec, None, None, None, None)
    before = hook.control_log.refresh()
    with pytest.raises(SpecError, match=r"orders/releases cannot be written: access is denied\."):
        deploy(hook, requested, "orders-1-0000000a")
    assert hook.control_log.refresh() == before

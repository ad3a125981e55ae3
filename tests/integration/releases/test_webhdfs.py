"""Releases on a real HDFS, over its WebHDFS: published whole, read back, removed; and what is wrong is said early."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError, StorageUnavailable, StreamError
from airflow_stream_provider.releases import webhdfs
from airflow_stream_provider.releases.open_place import open_place
from airflow_stream_provider.releases.place import ReleasePlace
from airflow_stream_provider.runtime.launcher import MANIFEST
from devstack.hdfs import Hdfs
from devstack.ports import free_port
from devstack.processes import Processes
from tests.support.at_once import errors_at_once
from tests.support.real_storage import NameNode, real_namenode
from tests.support.releases import Parts, connection_of, hdfs_connection, release_of


@contextlib.contextmanager
def own(folder: Path) -> Iterator[NameNode]:
    with contextlib.closing(Processes(folder / "logs")) as processes:
        running = Hdfs(folder / "hdfs", processes)
        running.start()
        found = NameNode(running.url, hdfs_connection(running), "", getpass.getuser())
        found.client.makedirs("/team")
        found.client.set_owner("/team", "airflow", "streams")
        yield found


@contextlib.contextmanager
def real(_: Path) -> Iterator[NameNode]:
    found = real_namenode()
    found.client.makedirs(f"{found.folder}/team")
    try:
        yield found
    finally:
        found.client.delete(found.folder, recursive=True)


@pytest.fixture(scope="module", params=[own, real])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameNode]:
    with request.param(tmp_path_factory.mktemp("hdfs")) as found:
        found.client.set_permission(f"{found.folder}/team", "770")
        yield found


@pytest.fixture
def parts(tmp_path: Path, request: pytest.FixtureRequest) -> Parts:
    return release_of(tmp_path, f"# {request.node.name}\n")


def place_of(server: NameNode, path: str = "/team", **changes: Any) -> ReleasePlace:
    connection = connection_of({**server.connection, **changes})
    return open_place(f"{server.url}{server.folder}{path}", connection, "orders", Path("/none"))


def replace(client: Any, path: str) -> None:
    client.delete(path)  # nobody may write over it, but HDFS's superuser
    client.write(path, b"x = 2\n")


def releases_of(server: NameNode) -> str:
    return f"{server.folder}/team/orders/releases"


def test_a_release_is_published_verified_and_removed(
    server: NameNode, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, client = place_of(server), server.client
    release, files = parts
    place.publish(release, files)
    place.publish(release, files)
    place.verify(release)
    folder = f"{releases_of(server)}/{release.hash}"
    assert set(client.list(folder)) == {*files, MANIFEST}
    assert {client.status(f"{folder}/{name}")["permission"] for name in files} == {"440"}
    assert client.status(folder)["permission"] == "750"
    assert client.status(folder)["group"] == client.status(f"{server.folder}/team")["group"]
    assert place.clean_up(lambda idle: idle) == frozenset(), "it is new"
    client.makedirs(f"{releases_of(server)}/.killed")
    client.set_times(folder, modification_time=1)
    client.set_times(f"{releases_of(server)}/.killed", modification_time=1)
    assert place.clean_up(lambda idle: idle) == {release.hash}
    assert release.hash not in str(client.list(releases_of(server)))
    assert ".killed" not in client.list(releases_of(server))


def test_what_a_killed_publisher_leaves_goes_when_it_is_old(server: NameNode, parts: Parts) -> None:
    """A frozen HDFS leaves the same, where it does not carry out at the end what nobody waits for any more."""
    client, releases = server.client, releases_of(server)
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            place = place_of(server)
            assert isinstance(place, webhdfs.HdfsPlace)
            write = place._client.write
            place._client.write = lambda *arguments, **options: (write(*arguments, **options), os._exit(0))
            place.publish(*parts)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0

    def left() -> list[str]:
        return [name for name in client.list(releases) if parts[0].hash in name]

    [name] = left()
    assert re.fullmatch(rf"\.{parts[0].hash}\.[0-9a-f]{{32}}", name)
    place_of(server).clean_up(lambda idle: frozenset())
    assert left() == [name], "somebody may be writing it now"
    client.set_times(f"{releases}/{name}", modification_time=1)
    place_of(server).clean_up(lambda idle: frozenset())
    assert left() == []
    place_of(server).publish(*parts)


def test_an_old_release_that_is_published_again_stays(server: NameNode, parts: Parts) -> None:
    place, client = place_of(server), server.client
    place.publish(*parts)
    client.set_times(f"{releases_of(server)}/{parts[0].hash}", modification_time=1)
    place.publish(*parts)
    assert parts[0].hash not in place.clean_up(lambda idle: idle)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda client, path: replace(client, f"{path}/app.py"), "their hash is"),
        (lambda client, path: client.write(f"{path}/argparse.py", b""), "argparse.py does not belong there"),
        (lambda client, path: client.makedirs(f"{path}/more"), "more does not belong there"),
        (lambda client, path: client.delete(f"{path}/helper.py"), "helper.py is missing"),
        (lambda client, path: client.delete(f"{path}/{MANIFEST}"), f"{MANIFEST} is missing"),
    ],
)
def test_what_was_changed_is_found(
    server: NameNode, parts: Parts, harm: Callable[[Any, str], object], says: str
) -> None:
    place = place_of(server)
    place.publish(*parts)
    harm(server.client, f"{releases_of(server)}/{parts[0].hash}")
    with pytest.raises(StreamError, match="have changed since they were published") as found:
        place.verify(parts[0])
    assert says in str(found.value)
    with pytest.raises(StreamError, match="have changed since they were published"):
        place.publish(*parts)


def test_a_file_that_goes_while_they_are_read_is_missing(
    server: NameNode, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(server)
    assert isinstance(place, webhdfs.HdfsPlace)
    place.publish(*parts)
    listed = place._client.list

    def then_gone(folder: str) -> list[str]:
        found: list[str] = listed(folder)
        server.client.delete(f"{folder}/helper.py")
        return found

    monkeypatch.setattr(place._client, "list", then_gone)
    with pytest.raises(StreamError, match=r"have changed since they were published: helper\.py is missing"):
        place.verify(parts[0])


def test_many_publishers_at_once_publish_one_release(server: NameNode, parts: Parts) -> None:
    """Each renames its own folder; HDFS's plain rename would move it into the one that is there, and say yes."""
    assert errors_at_once(lambda: place_of(server).publish(*parts)) == []
    place_of(server).verify(parts[0])
    assert [name for name in server.client.list(releases_of(server)) if parts[0].hash in name] == [parts[0].hash]


def test_what_is_wrong_is_said_in_one_sentence(server: NameNode, parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    with pytest.raises(
        SpecError, match=f"The storage {server.url}{server.folder}/team/.* permission is denied to the user"
    ):
        place_of(server, login="somebody").publish(*parts)
    with pytest.raises(StorageUnavailable, match=r"WebHDFS does not answer \(ConnectionError\)"):
        place_of(server, port=free_port()).publish(*parts)
    with pytest.raises(StorageUnavailable, match="WebHDFS does not answer"):
        place_of(server, port=urlsplit(server.url).port).publish(*parts)  # that of its RPC
    with pytest.raises(StorageUnavailable, match="WebHDFS does not answer"):
        place_of(server, host="no-such-host.invalid").publish(*parts)
    monkeypatch.setattr(webhdfs, "_TIMEOUT", (2, 2))
    import socket

    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(StorageUnavailable, match=r"WebHDFS does not answer \(ReadTimeout\)"),
    ):
        place_of(server, port=silent.getsockname()[1]).publish(*parts)
    assert time.monotonic() - began < 240


def test_a_release_that_may_not_be_seen_is_not_taken_for_one_that_was_changed(server: NameNode, parts: Parts) -> None:
    place, client = place_of(server, "/closed"), server.client
    closed = f"{server.folder}/closed"
    client.makedirs(closed)
    if server.owner != server.connection["login"]:
        client.set_owner(closed, server.connection["login"])
    place.publish(*parts)
    client.set_permission(closed, "000")
    for call in (lambda: place.verify(parts[0]), lambda: place.clean_up(lambda idle: idle)):
        with pytest.raises(SpecError, match="cannot be read: permission is denied to the user"):
            call()
    client.set_permission(closed, "700")  # so that it can be removed


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"conn_type": "aws"}, "of type webhdfs or hdfs"),
        ({"host": ""}, "with the NameNode's host"),
        ({"login": ""}, "it has no login"),
        ({"password": "hidden"}, "its password and extra are not used"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused(server: NameNode, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says) as refused:
        place_of(server, **changes)
    assert "hidden" not in str(refused.value)


def test_without_a_connection_nothing_is_guessed(server: NameNode) -> None:
    with pytest.raises(SpecError, match="needs a connection"):
        open_place(f"{server.url}{server.folder}/team", None, "orders", Path("/none"))


def test_the_second_namenode_is_asked_if_the_first_is_dead(server: NameNode, parts: Parts) -> None:
    fields = server.connection
    both = f"127.0.0.1:{free_port()},{fields['host']}:{fields['port']}"
    place_of(server, host=both).publish(*parts)

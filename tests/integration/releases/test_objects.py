"""Releases on real S3 servers: published whole, read back, removed; and one early sentence for what is wrong."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.releases import make_release
from airflow_stream_provider.lifecycle.errors import SpecError, StorageUnavailable, StreamError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.retire import Stored, expendable
from airflow_stream_provider.releases import objects
from airflow_stream_provider.releases import objects as object_stores
from airflow_stream_provider.releases import place as places
from airflow_stream_provider.releases.open_place import open_place
from airflow_stream_provider.releases.place import ReleasePlace
from airflow_stream_provider.runtime.launcher import MANIFEST
from devstack.ports import free_port
from devstack.s3 import PASSWORD, S3Server, moto, s3proxy
from tests.support.at_once import errors_at_once
from tests.support.real_storage import PREFIX, real_bucket
from tests.support.releases import Parts, connection_of, release_of
from tests.support.slow_link import slow_link


@contextlib.contextmanager
def real(_: Path) -> Iterator[S3Server]:
    server = real_bucket()
    yield server
    store = objects_of(server)
    for chunk in store.list():
        store.delete([each["path"] for each in chunk])


@pytest.fixture(scope="module", params=[moto, s3proxy, real])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with request.param(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def parts(tmp_path: Path, request: pytest.FixtureRequest) -> Parts:
    return release_of(tmp_path, f"# {request.node.name}\n")


def storage_of(server: S3Server) -> str:
    return f"s3://{server.bucket}/{PREFIX}"


def place_of(server: S3Server, storage: str | None = None, **changes: Any) -> ReleasePlace:
    connection = connection_of(server.connection, **changes)
    return open_place(storage or storage_of(server), connection, "orders", Path("/none"))


def objects_of(server: S3Server) -> Any:
    """The same objects, past the product."""
    from obstore.store import S3Store

    return S3Store(
        server.bucket,
        prefix=f"{PREFIX}/orders/releases",
        endpoint=server.endpoint,
        access_key_id=server.login,
        secret_access_key=server.password,
        region=server.region,
        client_options={"allow_http": True},
    )


def test_a_release_is_published_verified_and_removed(
    server: S3Server, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    import obstore

    place = place_of(server)
    release, files = parts
    place.publish(release, files)
    place.publish(release, files)
    place.verify(release)
    stored = {each["path"] for each in obstore.list(objects_of(server), release.hash).collect()}
    assert stored == {f"{release.hash}/{name}" for name in (*files, MANIFEST)}
    assert place.clean_up(lambda idle: idle) == frozenset(), "it is new"
    monkeypatch.setattr(places, "IDLE_SECONDS", -3600.0)
    assert release.hash not in place.clean_up(lambda idle: frozenset())
    place.verify(release)
    assert place.clean_up(lambda idle: idle & {release.hash}) == {release.hash}
    assert obstore.list(objects_of(server), release.hash).collect() == []


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda store, path: store.put(f"{path}/app.py", b"x = 2\n"), "their hash is"),
        (lambda store, path: store.put(f"{path}/argparse.py", b""), "argparse.py does not belong there"),
        (lambda store, path: store.put(f"{path}/more/x.py", b""), "more/x.py does not belong there"),
        (lambda store, path: store.delete(f"{path}/helper.py"), "helper.py is missing"),
        (lambda store, path: store.delete(f"{path}/{MANIFEST}"), f"{MANIFEST} is missing"),
        (lambda store, path: store.put(f"{path}/{MANIFEST}", b"{}"), f"{MANIFEST} is another one"),
    ],
)
def test_what_was_changed_is_found(
    server: S3Server, parts: Parts, harm: Callable[[Any, str], object], says: str
) -> None:
    place = place_of(server)
    place.publish(*parts)
    harm(objects_of(server), parts[0].hash)
    with pytest.raises(StreamError, match="have changed since they were published") as found:
        place.verify(parts[0])
    assert says in str(found.value)


def test_a_file_that_goes_while_they_are_read_is_missing(
    server: S3Server, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(server)
    assert isinstance(place, objects.ObjectPlace)
    place.publish(*parts)
    listed = place._names

    def then_gone(hash: str) -> list[str]:
        found = listed(hash)
        objects_of(server).delete(f"{hash}/helper.py")
        return found

    monkeypatch.setattr(place, "_names", then_gone)
    with pytest.raises(StreamError, match=r"have changed since they were published: helper\.py is missing"):
        place.verify(parts[0])


def test_a_half_published_release_is_finished_and_a_torn_one_is_refused(server: S3Server, parts: Parts) -> None:
    place, store = place_of(server), objects_of(server)
    release, files = parts
    store.put(f"{release.hash}/app.py", files["app.py"])
    with pytest.raises(StreamError, match="is missing"):
        place.verify(release)
    place.publish(release, files)
    place.verify(release)
    for name in (*files, MANIFEST):
        store.delete(f"{release.hash}/{name}")
    store.put(f"{release.hash}/app.py", files["app.py"][:1])
    with pytest.raises(StreamError, match="their hash is"):
        place.publish(release, files)


def test_a_half_published_release_goes_when_it_is_old(
    server: S3Server, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No deployment was declared of it, so no log knows it."""
    import obstore

    place, hash = place_of(server), parts[0].hash

    def unknown(idle: frozenset[str]) -> frozenset[str]:
        return expendable(StreamState(), Stored(releases=idle)).releases & {hash}

    objects_of(server).put(f"{hash}/app.py", parts[1]["app.py"])
    assert place.clean_up(unknown) == frozenset(), "somebody may be publishing it now"
    monkeypatch.setattr(places, "IDLE_SECONDS", -3600.0)
    assert place.clean_up(unknown) == {hash}
    assert obstore.list(objects_of(server), hash).collect() == []


def test_many_publishers_at_once_publish_one_release(server: S3Server, parts: Parts) -> None:
    assert errors_at_once(lambda: place_of(server).publish(*parts)) == []
    place_of(server).verify(parts[0])


def fails(place: ReleasePlace, parts: Parts, caplog: pytest.LogCaptureFixture, password: str = PASSWORD) -> StreamError:
    """Publish, and return the error; neither it nor a log shows a password, and it does not take for ever."""
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()
    with pytest.raises(StreamError) as found:
        place.publish(*parts)
    assert time.monotonic() - began < 120
    assert password not in f"{found.value!r} {found.value.fields} {caplog.text}"
    assert found.value.__cause__ is None
    return found.value


def test_a_bucket_that_does_not_exist(server: S3Server, parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    error = fails(place_of(server, f"s3a://{PREFIX}/team"), parts, caplog, server.password)
    assert f"s3a://{PREFIX}/team/orders/releases" in str(error)
    assert "there is no such bucket" in str(error)
    assert isinstance(error, SpecError)


def test_wrong_credentials(
    server: S3Server, parts: Parts, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    if "moto" in request.node.name:
        pytest.skip("moto knows every user")
    error = fails(place_of(server, password="a-wrong-one"), parts, caplog, "a-wrong-one")
    assert "access is denied" in str(error)
    assert isinstance(error, SpecError)


def test_a_wrong_endpoint(server: S3Server, parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = {"endpoint_url": f"http://127.0.0.1:{free_port()}", "region_name": "us-east-1"}
    error = fails(place_of(server, extra=nowhere), parts, caplog)
    assert "nothing answers at its endpoint" in str(error)
    assert isinstance(error, StorageUnavailable)


def test_a_host_that_does_not_exist(server: S3Server, parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = {"endpoint_url": "http://no-such-host.invalid", "region_name": "us-east-1"}
    assert "the name of its host is not known" in str(fails(place_of(server, extra=nowhere), parts, caplog))


def test_a_server_that_does_not_answer(
    server: S3Server, parts: Parts, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_stores, "_ANSWER", 3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = {"endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}", "region_name": "us-east-1"}
        error = fails(place_of(server, extra=endpoint), parts, caplog)
    assert "it did not answer in time" in str(error)


def test_a_large_file_may_take_longer_than_an_answer(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not server.process:
        pytest.skip("a real bucket checks for which host a request was signed")
    monkeypatch.setattr(object_stores, "_ANSWER", 3)
    # 5 s, which cannot be packed.
    text = f"x = 1  # {secrets.token_hex(5 * 2**16)}\n"
    with slow_link(int(server.endpoint.rpartition(":")[2]), lambda: 2**17) as port:
        link = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
        place_of(server, extra=link).publish(*release_of(tmp_path, text))


def test_a_name_that_is_another_one_elsewhere_is_refused_before_anything_is_written(
    server: S3Server, tmp_path: Path
) -> None:
    (tmp_path / "a#b.py").write_text("")
    (tmp_path / "app.py").write_text("")
    release, files = make_release(version="1", application=tmp_path / "app.py", py_files=[tmp_path / "a#b.py"])
    with pytest.raises(SpecError, match=r"named 'a#b\.py', which `storage` does not take"):
        place_of(server).publish(release, files)
    with pytest.raises(StreamError, match=f"{MANIFEST} is missing"):
        place_of(server).verify(release)


def test_a_bucket_without_releases_is_clean(server: S3Server) -> None:
    empty = place_of(server, f"{storage_of(server)}/other")
    assert empty.clean_up(lambda idle: idle) == frozenset()


def test_a_release_of_a_record_is_found_again(server: S3Server, parts: Parts) -> None:
    place_of(server).publish(*parts)
    read = Release.from_json({**parts[0].to_json(), "storage": storage_of(server)})
    place_of(server).verify(read)

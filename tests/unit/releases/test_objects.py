"""Objects that go between a listing and what follows it, in obstore's store in memory. Real servers: integration."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.exceptions import PermissionDeniedError
from obstore.store import MemoryStore

from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.releases import place as places
from airflow_stream_provider.releases.objects import ObjectPlace
from airflow_stream_provider.runtime.launcher import MANIFEST
from tests.support.releases import Parts, release_of


class Vanishing(ObjectPlace):
    """Another clean-up comes in each time that this place has listed something."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store, store, "s3a://bucket/orders/releases")
        self.then: Callable[[], object] = lambda: None

    def _names(self, hash: str) -> list[str]:
        found = super()._names(hash)
        self.then()
        return found


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return release_of(tmp_path)


@pytest.mark.parametrize("gone", ["helper.py", MANIFEST])
def test_a_release_whose_file_goes_while_it_is_verified_has_changed_and_its_bucket_is_there(
    parts: Parts, gone: str
) -> None:
    store = MemoryStore()
    place = Vanishing(store)
    place.publish(*parts)
    place.then = lambda: store.delete(f"{parts[0].hash}/{gone}")
    with pytest.raises(StreamError, match=f"have changed since they were published: {gone} is missing") as found:
        place.verify(parts[0])
    assert "bucket or container" not in str(found.value)


def test_what_another_clean_up_has_removed_is_gone(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(places, "IDLE_SECONDS", -3600.0)
    store = MemoryStore()
    place = Vanishing(store)
    place.publish(*parts)

    def another_is_faster(idle: frozenset[str]) -> frozenset[str]:
        store.delete(f"{parts[0].hash}/{MANIFEST}")
        return idle

    assert place.clean_up(another_is_faster) == {parts[0].hash}
    assert store.list().collect() == []
    assert caplog.text == ""


def test_what_killed_writers_have_left_goes(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "IDLE_SECONDS", -3600.0)
    store = MemoryStore()
    place = Vanishing(store)
    place.publish(*parts)
    store.put(".killed", b"")
    assert place.clean_up(lambda idle: idle) == {parts[0].hash}
    assert store.list().collect() == []


def test_a_release_is_idle_a_day_before_what_was_published_last_and_no_clock_is_asked(
    parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    place = Vanishing(store)
    place.publish(*parts)
    time.sleep(0.2)
    (tmp_path / "other").mkdir()
    later, files = release_of(tmp_path / "other", "# another\n")
    place.publish(later, files)
    monkeypatch.setattr("obstore.put", refuses("403 Forbidden"))
    assert place.clean_up(lambda idle: idle) == frozenset()
    monkeypatch.setattr(places, "IDLE_SECONDS", 0.1)
    assert place.clean_up(lambda idle: idle) == {parts[0].hash}
    place.verify(later)


# What they say, from their documentation: no server of either runs here.
RETAINED = [
    "403 Forbidden: <Error><Code>RetentionPolicyNotMet</Code><Message>Object 'a' is subject to bucket's policy",
    "409 Conflict: <Error><Code>BlobImmutableDueToPolicy</Code><Message>This operation is not permitted",
]


@pytest.mark.parametrize("says", RETAINED, ids=["Google", "Azure"])
def test_a_release_in_a_store_that_retains_it_is_published_again_and_stays(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, says: str
) -> None:
    store = MemoryStore()
    place = Vanishing(store)
    place.publish(*parts)
    with monkeypatch.context() as patched:
        for name in ("put", "delete"):
            patched.setattr(f"obstore.{name}", refuses(says))
        place.publish(*parts)
        patched.setattr(places, "IDLE_SECONDS", -3600.0)
        place.clean_up(lambda idle: idle)
    place.verify(parts[0])
    assert "cannot be written: retention keeps what is stored there" in caplog.text
    monkeypatch.setattr("obstore.put", refuses("403 Forbidden: <Error><Code>AccessDenied</Code>"))
    with pytest.raises(SpecError, match="cannot be written: access is denied"):
        place.publish(*parts)


def refuses(says: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionDeniedError(f"The operation lacked privileges: Client error with status code: {says}")

    return refuse


def test_a_bucket_that_goes_while_a_release_is_written_is_named(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """As obstore tells of one; its store in memory has none."""

    def put(*_: object, **__: object) -> None:
        raise FileNotFoundError("Object at location a/b not found: https://bucket.example/?X-Amz-Signature=hidden")

    monkeypatch.setattr("obstore.put", put)
    with pytest.raises(SpecError, match="cannot be written: there is no such bucket") as found:
        Vanishing(MemoryStore()).publish(*parts)
    assert "hidden" not in str(found.value)

"""Whose a checkpoint is, where its own storage cannot say. On a real HDFS: tests/integration/runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.files import RemotePath
from airflow_stream_provider.checkpoint.location import Storage, reach
from airflow_stream_provider.control import make_root
from airflow_stream_provider.control.owners import FileOwners, TopicOwners
from airflow_stream_provider.lifecycle.errors import CheckpointError, ControlUnavailable
from airflow_stream_provider.runtime.ownership import Ownership
from airflow_stream_provider.runtime.places import open_owners
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic

PLACE = "s3a://bucket/cp"


class FilesInMemory:
    """A storage where whoever writes last wins, as on S3; no real one runs in a unit test."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def read(self, path: RemotePath) -> bytes:
        if str(path) not in self.held:
            raise FileNotFoundError(2, "it does not exist", str(path))
        return self.held[str(path)]

    def write(self, path: RemotePath, data: bytes) -> None:
        self.held[str(path)] = data


@pytest.fixture
def stored() -> Iterator[dict[str, bytes]]:
    files: Any = FilesInMemory()
    reach(Storage(lambda: "file:///", lambda root: files))
    yield files.held
    reach(None)


@pytest.fixture
def control(tmp_path: Path) -> str:
    url = (tmp_path / "control").as_uri()
    make_root(url)
    return url


def ownership(stream: str, control: str) -> Ownership:
    return Ownership(stream, control, open_owners(control))


def test_the_first_claim_in_the_control_store_stays(stored: dict[str, bytes], control: str) -> None:
    orders, others = ownership("orders", control), ownership("others", control)
    assert not orders.check(PLACE)
    for _ in range(2):
        orders.claim(PLACE)
        assert orders.check("s3://bucket//cp/")
    assert json.loads(stored[f"{PLACE}.owner"]) == {"stream": "orders", "control": control, "log": ""}
    stored.clear()  # the claim alone decides
    for ask in (others.check, others.claim):
        with pytest.raises(CheckpointError, match="belongs to the stream orders, not to others") as caught:
            ask(PLACE)
        assert ".owners/" in caught.value.next_step
    assert stored == {}


def test_the_marker_tells_of_another_control_store(stored: dict[str, bytes], control: str, tmp_path: Path) -> None:
    other = (tmp_path / "other").as_uri()
    make_root(other)
    ownership("orders", other).claim(PLACE)
    mine = ownership("orders", control)
    for ask in (mine.check, mine.claim):
        with pytest.raises(CheckpointError, match=f"belongs to the stream orders of {other}"):
            ask(PLACE)
    assert open_owners(control).owner(PLACE) is None, "nothing is claimed that cannot be used"


@pytest.mark.parametrize("remote", [True, False], ids=["on S3", "mounted"])
def test_one_url_that_leads_to_another_kafka_is_another_control_store(
    stored: dict[str, bytes], tmp_path: Path, remote: bool
) -> None:
    """The Airflow connection names another Kafka now: its topics know nothing of the driver that writes."""
    location, url = PLACE if remote else str(tmp_path / "cp"), "kafka://kafka_control/streams"
    before, now = (TopicOwners(partial(SimulatedTopic, log)) for log in (SimulatedLog(), SimulatedLog()))
    Ownership("orders", url, before, "a" * 32).claim(location)
    new = Ownership("orders", url, now, "b" * 32)
    for ask in (new.check, new.claim):
        with pytest.raises(CheckpointError, match="of another control log"):
            ask(location)
    assert now.owner(PLACE) is None, "nothing is claimed that cannot be used"
    assert Ownership("orders", url, before, "a" * 32).check(location)


@pytest.mark.parametrize("remote", [True, False], ids=["on S3", "mounted"])
def test_a_stream_that_moves_to_another_control_store_is_refused_until_it_is_let_go_and_then_where_it_was(
    stored: dict[str, bytes], control: str, tmp_path: Path, remote: bool
) -> None:
    """As docs/control.md says; what runs under the old one has claimed the checkpoint, stopped or not."""
    location = PLACE if remote else str(tmp_path / "cp")
    new_control = (tmp_path / "new").as_uri()
    make_root(new_control)
    old, new = ownership("orders", control), ownership("orders", new_control)
    old.claim(location)
    for ask in (new.check, new.claim):
        with pytest.raises(CheckpointError, match=f"stop it under {control} first, .* then remove {location}.owner"):
            ask(location)
    if remote:
        del stored[f"{location}.owner"]
    else:
        Path(f"{location}.owner").unlink()
    assert not new.check(location)
    new.claim(location)
    assert new.check(location)
    for ask in (old.check, old.claim):
        with pytest.raises(CheckpointError, match=f"belongs to the stream orders of {new_control}"):
            ask(location)
    with pytest.raises(CheckpointError, match="belongs to the stream orders"):
        ownership("others", control).check(location)


def test_a_local_checkpoint_needs_no_claim(stored: dict[str, bytes], control: str, tmp_path: Path) -> None:
    mine = ownership("orders", control)
    mine.claim(str(tmp_path / "cp"))
    assert mine.check(f"file:{tmp_path}/cp")
    assert (tmp_path / "cp.owner").is_file()
    assert not (tmp_path / "control" / ".owners").exists()


def test_a_control_store_that_is_away_is_not_one_without_claims(stored: dict[str, bytes], tmp_path: Path) -> None:
    away = Ownership("orders", "file:///away", FileOwners(tmp_path / "away"))
    for ask in (away.check, away.claim):
        with pytest.raises(ControlUnavailable):
            ask(PLACE)
    assert stored == {}


def test_the_marker_is_beside_the_checkpoint() -> None:
    path = RemotePath("s3a://bucket", PurePosixPath("/cp"), Any)  # type: ignore[arg-type]
    assert str(path.with_name(f"{path.name}.owner")) == f"{PLACE}.owner"


class Away:
    """The claims of a control store, until it is out of reach."""

    def __init__(self, control: str) -> None:
        self.owners = open_owners(control)
        self.away = False

    def __getattr__(self, name: str) -> Any:
        if self.away:
            raise ControlUnavailable("The control store is out of reach.")
        return getattr(self.owners, name)


def test_whoever_takes_over_does_not_wait_for_a_control_store_that_has_answered(
    stored: dict[str, bytes], control: str
) -> None:
    """Found by a review: while the claims could not be read, a hand-over stopped the stream."""
    ownership("orders", control).claim(PLACE)
    store: Any = Away(control)
    mine = Ownership("orders", control, store)
    assert mine.check(PLACE)
    store.away = True
    stored.clear()
    assert mine.check("s3://bucket//cp/")
    mine.claim(PLACE)
    assert json.loads(stored[f"{PLACE}.owner"])["stream"] == "orders"
    with pytest.raises(ControlUnavailable):
        mine.check(f"{PLACE}-2")
    with pytest.raises(ControlUnavailable):
        mine.claim(f"{PLACE}-2")
    # The mark counts each time.
    stored[f"{PLACE}.owner"] = json.dumps({"stream": "others", "control": control, "log": ""}).encode()
    for ask in (mine.check, mine.claim):
        with pytest.raises(CheckpointError, match="belongs to the stream others"):
            ask(PLACE)


def test_a_mark_alone_does_not_stand_for_a_claim(stored: dict[str, bytes], control: str) -> None:
    """The control store may have been put back from an older copy: then the claim is made again."""
    store: Any = Away(control)
    mine = Ownership("orders", control, store)
    checkpoints.claim(PLACE, "orders", control)
    assert mine.check(PLACE)
    store.away = True
    with pytest.raises(ControlUnavailable):
        mine.claim(PLACE)
    store.away = False
    mine.claim(PLACE)
    assert open_owners(control).owner(PLACE) == "orders"

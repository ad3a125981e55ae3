from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_stream_provider.control import disk, make_root
from airflow_stream_provider.control.owners import FileOwners
from airflow_stream_provider.lifecycle.errors import CheckpointError, ControlUnavailable

PLACE = "hdfs://nn:9820/a"


@pytest.fixture
def owners(tmp_path: Path) -> FileOwners:
    make_root(tmp_path.as_uri())
    return FileOwners(tmp_path)


def test_the_first_claim_wins_and_others_read_its_name(owners: FileOwners) -> None:
    assert owners.owner(PLACE) is None
    assert owners.claim(PLACE, "orders") == "orders"
    assert owners.claim(PLACE, "others") == "orders"
    assert owners.owner(PLACE) == "orders"
    assert owners.claim(f"{PLACE}/b", "others") == "others"
    kept = Path(owners.kept_in(PLACE))
    assert json.loads(kept.read_text()) == {"stream": "orders", "location": PLACE}
    assert sorted(path.suffix for path in kept.parent.iterdir()) == [".json", ".json"], "nothing is left of a loser"


def test_of_many_claims_at_once_one_wins_and_all_know_it(owners: FileOwners) -> None:
    for place in range(10):
        with ThreadPoolExecutor(10) as pool:
            said = list(pool.map(lambda n, place=place: owners.claim(f"{PLACE}/{place}", f"s{n}"), range(10)))
        assert len(set(said)) == 1


def test_a_claim_that_is_removed_while_it_is_made_is_none(owners: FileOwners, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "sync_folder", lambda folder: Path(owners.kept_in(PLACE)).unlink())
    with pytest.raises(CheckpointError, match=r"The claim /\S+ was removed while it was made\. .* try again"):
        owners.claim(PLACE, "orders")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"stream": "orders", "location": "hdfs://other/a"}'])
def test_a_damaged_claim_is_nobodys(owners: FileOwners, content: str) -> None:
    owners.claim(PLACE, "orders")
    Path(owners.kept_in(PLACE)).chmod(0o600)
    Path(owners.kept_in(PLACE)).write_text(content)
    for ask in (owners.owner, lambda place: owners.claim(place, "orders")):
        with pytest.raises(CheckpointError, match="does not name the stream"):
            ask(PLACE)


def test_a_folder_that_is_not_mounted_has_no_claims_and_takes_none(tmp_path: Path) -> None:
    away = FileOwners(tmp_path / "away")
    with pytest.raises(ControlUnavailable):
        away.owner(PLACE)
    with pytest.raises(ControlUnavailable):
        away.claim(PLACE, "orders")

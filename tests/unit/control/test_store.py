"""The contract of every store, held by a folder and by a topic in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.store_contract.files import FilesPlace
from tests.support.store_contract.place import Place
from tests.support.store_contract.suite import StoreContract, StoreOutages, StoreRaces
from tests.support.store_contract.topics import SimulatedPlace


@pytest.fixture(params=["files", "topic in memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return FilesPlace(tmp_path) if request.param == "files" else SimulatedPlace()


class TestContract(StoreContract):
    pass


class TestOutages(StoreOutages):
    pass


@pytest.mark.parametrize("place", ["topic in memory"], indirect=True)
class TestRaces(StoreRaces):
    """In threads: the processes are among the integration tests."""

    WINS = 2

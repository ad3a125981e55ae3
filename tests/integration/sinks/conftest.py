from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.postgres import PostgresServer, missing
from devstack.processes import Processes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL of the module's own."""
    if why := missing():
        pytest.skip(f"left out: the sinks for PostgreSQL. {why}")
    folder = tmp_path_factory.mktemp("postgres")
    processes = Processes(folder)
    try:
        server = PostgresServer(folder / "server", processes)
        server.start()
        yield server
    finally:
        processes.close()

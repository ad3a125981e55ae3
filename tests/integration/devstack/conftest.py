from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import reaper
from devstack.stack import LocalStack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """The whole stack. After it has been stopped, none of its processes may be left."""
    with LocalStack(tmp_path_factory.mktemp("stack"), dags_folder=Path(__file__).parent / "dags") as started:
        processes = started.processes
        yield started
    assert list(reaper.marked(processes.mark)) == []

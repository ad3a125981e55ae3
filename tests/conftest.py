"""Tests beside each other: `pytest -n` keeps those of one folder in one process, in their order, the longest first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONGEST_FIRST = (HERE / "system", HERE / "integration" / "runtime", HERE / "integration", HERE)


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist"):  # the environments of `make test-spark`
        return
    items.sort(key=lambda item: next(n for n, folder in enumerate(LONGEST_FIRST) if folder in item.path.parents))
    for item in items:
        # What the tests of a folder share, such as a whole stack, is made once.
        item.add_marker(pytest.mark.xdist_group(str(item.path.parent)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    # What takes longest shall not wait for the rest; a worker has no test of the whole stack after another one.
    if "PYTEST_XDIST_WORKER" in os.environ and item.get_closest_marker("system") is None:
        os.nice(max(0, 5 - os.nice(0)))

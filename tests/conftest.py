"""Which tests may run beside each other: `pytest -n` keeps the tests of one group in one process, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

SYSTEM = Path(__file__).parent / "system"


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist"):  # the environments of `make test-spark`
        return
    for item in items:
        # All of tests/system share one stack; what a file shares is made once, too.
        group = "system" if SYSTEM in item.path.parents else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))

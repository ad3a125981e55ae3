from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.dead_mount import Dead


@pytest.fixture
def dead() -> Iterator[Dead]:
    found = Dead()
    yield found
    found.mended.set()

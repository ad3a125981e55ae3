"""A master that every test of this folder may have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fake_master import Master


@pytest.fixture
def master() -> Iterator[Master]:
    started = Master()
    yield started
    started.close()

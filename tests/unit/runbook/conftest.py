"""What every test of this folder may have: a folder with the YAML file of one stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.spec_text import SPEC


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    folder = tmp_path / "streams"
    folder.mkdir()
    (folder / "orders.yaml").write_text(SPEC.format(name="orders"))
    return folder

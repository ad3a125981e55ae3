"""What the docs take from the code is as the code says now; nothing is generated that no page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.reference import DOCS, GENERATED, MARKS, page

PAGES = [path for path in sorted(DOCS.rglob("*.md")) if MARKS.search(path.read_text())]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_page_is_as_it_is_generated(path: Path) -> None:
    assert path.read_text() == page(path.read_text()), "run: python -m tests.support.reference"


def test_every_part_is_on_one_page() -> None:
    shown = [found[2] for path in PAGES for found in MARKS.finditer(path.read_text())]
    assert sorted(shown) == sorted(GENERATED)

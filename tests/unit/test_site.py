"""The site of docs/ has every page, and a reader's browser fetches nothing from elsewhere; `make site` builds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = yaml.safe_load(re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text()))


def pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from pages(each)


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(pages(CONFIG["nav"])) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_no_page_makes_a_browser_fetch_from_elsewhere() -> None:
    # The theme has scripts and icons of its own. It would fetch fonts, and for a diagram a script.
    assert CONFIG["theme"]["font"] is False
    assert not {"extra_css", "extra_javascript"} & CONFIG.keys()
    fetched = re.compile(r"```mermaid|!\[[^]]*\]\(http|<(?:img|script|link|iframe|video)\b[^>]*http")
    assert [path.name for path in DOCS.rglob("*.md") if fetched.search(path.read_text())] == []

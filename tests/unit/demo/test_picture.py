from __future__ import annotations

from pathlib import Path

from demo.picture import draw
from tests.support.demo_steps import COMMITS, STEPS


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    draw(tmp_path / "report.png", COMMITS, STEPS)
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")

"""The picture of a hand-over beside a restart shows what was written, and what was not yet."""

from __future__ import annotations

from pathlib import Path

from benchmarks.gap_picture import around, draw


def test_the_picture_shows_what_was_written_and_what_was_not(tmp_path: Path) -> None:
    produced = [100.05 + number / 10 for number in range(100)]
    written = [at + 0.5 if not 103 <= at < 107 else 107.6 for at in produced]
    found = around(105.0, -3, 4.9, produced, sorted(written))
    assert found["since"] == -3
    assert found["per_second"] == [10, 5, 0, 0, 0, 45, 10]
    assert (found["behind"][0], max(found["behind"]), len(found["behind"])) == (5, 45, 29)
    draw(tmp_path / "gap.png", {side: {"gap_seconds": 4.0, **found} for side in ("handover", "restart")})
    assert (tmp_path / "gap.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "gap.png").stat().st_size < 100_000

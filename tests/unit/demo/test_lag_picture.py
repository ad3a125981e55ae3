from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.lag.limits import LagLimits
from demo.lag_picture import draw_lag
from tests.support.demo_lag import SAMPLES, STEPS


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    draw_lag(tmp_path / "lag.png", SAMPLES, STEPS, LagLimits(1500, 10.0))
    assert (tmp_path / "lag.png").read_bytes().startswith(b"\x89PNG")
    draw_lag(tmp_path / "none.png", [], STEPS, LagLimits())
    assert (tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")

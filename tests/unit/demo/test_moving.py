"""What the moving picture of the README shows of a demo's report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from demo import moving
from demo.history import Change, StepResult
from demo.report import Step, timeline_of

COMMITS = {
    "enrich": {number: 100.0 + number for number in range(20)} | {20: 121.5, 21: 122.5},
    "totals": {number: 100.5 + number for number in range(23)},
}
STEPS = [
    Step("deploy release 1", 99.0, 101.0, StepResult.DEPLOYED, [Change(None, "orders-1-a.1", 100.0)]),
    Step("upgrade to release 2", 110.0, 122.0, StepResult.HANDED_OVER, [Change("orders-1-a.1", "orders-2-b.1", 120.0)]),
]
VERSIONS = {"orders-1-a.1": "1", "orders-2-b.1": "2"}


@pytest.fixture
def timeline() -> dict[str, Any]:
    return timeline_of(STEPS, COMMITS, VERSIONS)


def test_a_scene_is_a_step_in_which_a_release_took_over_from_another(timeline: dict[str, Any]) -> None:
    assert moving.scenes(timeline) == [("upgrade to release 2: handed-over", 8.0, 32.0)]
    assert [moving.holder(timeline["changes"], at) for at in (-1.0, 19.9, 20.0)] == ["", "1", "2"]


@pytest.mark.parametrize(("at", "seconds"), [(10.25, 0.75), (19.25, 0.75), (21.4, 2.4), (21.75, 0.25)])
def test_the_query_that_waits_longest_counts(timeline: dict[str, Any], at: float, seconds: float) -> None:
    assert moving.waiting(timeline["batches"], at) == pytest.approx(seconds)


def test_the_picture_moves(timeline: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "FRAMES_A_SECOND", 1)
    moving.draw(tmp_path / "demo.gif", timeline)
    with Image.open(tmp_path / "demo.gif") as found:
        assert getattr(found, "n_frames", 1) == 13

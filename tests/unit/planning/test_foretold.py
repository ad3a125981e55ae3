"""What is foretold is what is done: on random legal logs, for every verb; `python -m tests.support.foretold 10000`."""

from __future__ import annotations

import pytest

from tests.support.foretold import tries


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_forecast_and_deed_are_equal(first: int) -> None:
    tried = [each for seed in range(first, first + 10) for each in tries(seed)]
    assert [f"{each.asked.operation}: {each.differs}" for each in tried if each.differs] == []
    assert {"will", "done", "refused"} <= {each.word for each in tried}

from __future__ import annotations

import pytest

from chaos.run import RATE
from chaos.world import CHANGES, QUICKLY_THROTTLED

NUMBERS = {name: number for name, _, number in (text.partition(" = ") for text in QUICKLY_THROTTLED.values())}


@pytest.mark.parametrize("quota", [int(NUMBERS["QUOTA"]), 0])
@pytest.mark.parametrize("gap_seconds", [0.2, 1.0, 3.0])
def test_the_bad_release_is_too_far_behind_before_its_soak_is_over_though_nothing_else_is_slow(
    gap_seconds: float, quota: int
) -> None:
    soak = float(CHANGES["upgrade"]["soak"].removesuffix("s"))
    now, read = 0.0, 0.0  # it acquires at 0; how many orders its committed batches have read
    while True:
        waiting = (now + gap_seconds) * RATE - read
        takes = max(waiting - max(quota - read, 0.0), 0.0) * float(NUMBERS["THROTTLED_SECONDS"])
        end = max(now + takes, now + 1.0)  # its trigger fires once a second
        if end > soak:
            break
        now, read = end, read + waiting
    assert (soak + gap_seconds) * RATE - read > CHANGES["lag"]["max_records"]

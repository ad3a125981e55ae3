"""Time limits for what a test lets hang: what is beside it must be done by then, also on a busy machine."""

from __future__ import annotations

from collections.abc import Callable


def in_time(act: Callable[[float], bool]) -> None:
    """Try with limits of a second to some minutes until what is to be done within one is done.

    :param act: what is done, within so many seconds; returns whether it was.
    """
    assert any(act(seconds) for seconds in (1.0, 8.0, 64.0, 512.0)), "not done in time"

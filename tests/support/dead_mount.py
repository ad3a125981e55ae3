"""A mount that hangs until a test lets it go on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

SOON, LONG = 0.05, 60.0


class Dead:
    """What a dead mount is to those who read it; notes who does."""

    def __init__(self) -> None:
        self.tried: list[Any] = []
        self.mended = threading.Event()

    def read(self, number: Any = 0) -> Any:
        self.tried.append(number)
        self.mended.wait(LONG)
        return number

    async def until_tried(self, times: int) -> None:
        while len(self.tried) < times:
            await asyncio.sleep(0.01)

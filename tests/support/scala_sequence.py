"""What py4j shows of Scala's collections."""

from __future__ import annotations

from typing import Any


class Items(list[Any]):
    """A Scala sequence, as py4j shows it."""

    def size(self) -> int:
        return len(self)

    def apply(self, position: int) -> Any:
        return self[position]

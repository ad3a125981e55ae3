"""What came of one seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Result:
    """What came of one seed. `cells`: how often each fault came in each state of the protocol."""

    seed: int
    store: str = ""
    broken: str = ""
    found: str = ""
    steps: int = 0
    seconds: float = 0.0
    longest_recovery: float = 0.0
    doubled: int = 0
    batches: int = 0
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    disasters: Counter[str] = field(default_factory=Counter)

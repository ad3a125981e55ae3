"""Jump the clock of single Python processes, by a file that a hook in each of them reads.

Linux has one wall clock for all processes. So every Python process of the run imports `clock_hook/sitecustomize.py`,
which moves what `time.time()` returns. The clock of a JVM cannot be moved this way, and is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

HOOK = Path(__file__).parent / "clock_hook"


class Clocks:
    """The clocks of the run's Python processes.

    :param folder: for the clock files; made here.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def environment(self) -> dict[str, str]:
        """Return the variables with which a Python process is started whose clock can be jumped."""
        path = [str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(path), "CHAOS_CLOCKS": str(self.folder)}

    def jump(self, pids: Iterable[int], seconds: float) -> None:
        """Move the clocks of processes by so many seconds, within 0.2 s; backwards when negative."""
        for pid in pids:
            new = self.folder / f"{pid}.new"
            new.write_text(str(seconds))
            new.rename(self.folder / str(pid))

    def set_right(self, pids: Iterable[int]) -> None:
        """Set the clocks of processes right."""
        for pid in pids:
            (self.folder / str(pid)).unlink(missing_ok=True)

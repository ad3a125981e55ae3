"""Input and output of `app_orders_files.py`: numbered orders in, what came out counted."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

from devstack.drivers import wait_for

CUSTOMERS = 7


class Orders:
    """Writes order files into a folder, at a steady rate or on demand, and reads the results."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written = 0
        (root / "in").mkdir(parents=True)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, count: int = 20) -> None:
        """Write one file of orders, renamed into place so that Spark never reads half of it."""
        rows = (
            {"id": n, "customer": f"c{n % CUSTOMERS}", "amount": 1} for n in range(self.written, self.written + count)
        )
        hidden = self.root / f".{self.written}.json"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(self.root / "in" / f"{self.written:08d}.json")
        self.written += count

    def flow(self, seconds: float = 0.2) -> None:
        """Write a file every so many seconds, until `dry`."""

        def produce() -> None:
            while not self._stop.wait(seconds):
                self.write()

        self._stop.clear()
        self._thread = threading.Thread(target=produce, daemon=True)
        self._thread.start()

    def dry(self) -> None:
        """Stop the flow."""
        self._stop.set()
        if self._thread:
            self._thread.join()

    def delivered(self) -> Counter[int]:
        """How often each order came out of the stateless query."""
        found = [json.loads(line)["id"] for path in self.root.glob("lines/part-*.json") for line in _lines(path)]
        return Counter(found)

    def go_on(self, what: str, count: int = 50) -> None:
        """Wait until more than so many orders have come out since now.

        :param what: which orders are waited for, for the error message.
        """
        before = len(self.delivered())
        wait_for(what, lambda: len(self.delivered()) > before + count)

    def totals(self) -> dict[str, int]:
        """The last total of each customer, by batch."""
        last: dict[str, int] = {}
        for folder in sorted((self.root / "totals").glob("*"), key=lambda path: int(path.name)):
            for path in folder.glob("part-*.json"):
                for line in _lines(path):
                    row = json.loads(line)
                    last[row["customer"]] = row["total"]
        return last

    def check(self) -> None:
        """Wait until everything written came out, then insist: nothing lost, nothing twice, totals right."""
        wanted = {f"c{c}": len(range(c, self.written, CUSTOMERS)) for c in range(CUSTOMERS)}
        wait_for("all orders to come out", lambda: len(self.delivered()) >= self.written and self.totals() == wanted)
        assert sorted(self.delivered()) == list(range(self.written))
        assert {n: c for n, c in self.delivered().items() if c != 1} == {}


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()

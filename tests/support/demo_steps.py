"""Steps and commits of a demo that never ran."""

from __future__ import annotations

from demo.history import Change, StepResult
from demo.report import Step

# One commit a second from 0 to 30, but 1.4 s around the hand-over at 10.2 and 3 s around the way back at 20.5.
TIMES = [float(s) for s in range(11)] + [11.4 + s for s in range(9)] + [22.4 + s for s in range(8)]
COMMITS = {"enrich": dict(enumerate(TIMES)), "totals": dict(enumerate(TIMES))}
CLEAN = {"enrich": "completed", "totals": "completed"}
THERE = Change(source="one", to="two", at=10.2, boundary=CLEAN)
BACK = Change(source="two", to="one", at=20.5, boundary={"enrich": "completed", "totals": "interrupted"})
STEPS = [
    Step("deploy 1", -5.0, 0.5, StepResult.DEPLOYED, [Change(source=None, to="one", at=-0.5)]),
    Step("upgrade to 2", 5.5, 25.0, StepResult.ROLLED_BACK, [THERE, BACK]),
]

"""What `make test-spark` has run: a pytest plugin that notes it, and `make spark-matrix`, which keeps that in
tests/fixtures/spark_matrix.json and writes the table of docs/compatibility.md. Runs of some files add up.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "integration" / "runtime"
RAN = ROOT / "build" / "spark"
RESULTS = ROOT / "tests" / "fixtures" / "spark_matrix.json"
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- make test-spark: begin -->", "<!-- make test-spark: end -->"
HEAD = "| Spark | Python | passed | failed | skipped | test files not run | its Kafka connector | commit |"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Note how each test ended, and why it was skipped, in build/spark/VERSION.json."""
    path = RAN / f"{version('pyspark')}.json"
    tests = json.loads(path.read_text())["tests"] if path.exists() else {}
    for outcome in ("skipped", "passed", "failed", "error"):  # a test that passed may have an error in its fixtures
        for each in terminalreporter.stats.get(outcome, ()):
            tests[each.nodeid] = each.longrepr[2] if outcome == "skipped" else outcome
    commit = subprocess.check_output(["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, text=True)
    noted = {"version": path.stem, "python": platform.python_version(), "commit": commit.strip(), "tests": tests}
    RAN.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(noted, indent=1) + "\n")


def summed_up(noted: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of the notes on a version."""
    tests = noted.pop("tests")
    counts: Counter[str] = Counter(tests.values())
    reasons = {text.removeprefix("Skipped: "): n for text, n in sorted(counts.items()) if text.startswith("Skipped: ")}
    return {
        **noted,
        "passed": counts["passed"],
        "failed": counts["failed"] + counts["error"],
        "skipped": sum(reasons.values()),
        "reasons": reasons,
        "not_run": [each.name for each in sorted(TESTS.glob("test_*.py")) if f"/{each.name}::" not in str([*tests])],
    }


def table(results: list[dict[str, Any]]) -> str:
    """Return the table of docs/compatibility.md."""
    lines = [HEAD, re.sub("[^|]+", "---", HEAD)]
    for each in results:
        connector = "not to be had" if any("Kafka connector" in reason for reason in each["reasons"]) else "to be had"
        parts = [str(each[name]) for name in ("version", "python", "passed", "failed", "skipped")]
        lines.append(f"| {' | '.join([*parts, str(len(each['not_run'])), connector, each['commit']])} |")
    return "\n".join(lines)


def with_table(page: str, results: list[dict[str, Any]]) -> str:
    """Return the text of the page with the table in its place."""
    return re.sub(f"{BEGIN}.*{END}", f"{BEGIN}\n\n{table(results)}\n\n{END}", page, flags=re.DOTALL)


def minor(spark: str) -> tuple[int, int]:
    """Return the first two numbers of a version."""
    return int(spark.split(".")[0]), int(spark.split(".")[1])


def main() -> None:
    """Keep the newest results of each version, and write the table."""
    ran = [summed_up(json.loads(path.read_text())) for path in RAN.glob("*.json")]
    kept = {minor(each["version"]): each for each in [*json.loads(RESULTS.read_text()), *ran]}
    RESULTS.write_text(json.dumps(results := [kept[each] for each in sorted(kept)], indent=1) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), results))


if __name__ == "__main__":
    main()

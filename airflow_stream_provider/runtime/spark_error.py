"""Errors of PySpark as text for people."""

from __future__ import annotations

import re

from airflow_stream_provider.lifecycle.secrets import redact

# Characters of an error that are looked at; many times what is kept.
_READ = 2**16
# Lines of a query's plan, which Spark's analysis puts behind a message: a source has its options in them.
_BELOW = re.compile(r"[\s:]{0,400}[+:]- ")
_NODE = re.compile(r"\s{0,9}['~!]{0,2}[A-Z]\w*(?:[ (\[]|\Z)")
_LEAF = re.compile(r"\s{0,9}['~!]{0,2}\w*Relation(?:V2)?(?:[ (\[]|\Z)")


def message_of(error: BaseException, limit: int = 1500) -> str:
    """Return an error's message without stacks, plan and secrets, cut at so many characters."""
    # An error may quote a whole record of Kafka, and a driver that looks through megabytes for secrets loses its lease.
    text = str(getattr(error, "desc", None) or error)[:_READ]
    # A StreamingQueryException ends with the query's identity, offsets and whole plan.
    text = text.partition("=== Streaming Query ===")[0].partition("\nJVM stacktrace:")[0]
    kept: list[str] = []
    in_stack = False
    for line in text.splitlines():
        if _BELOW.match(line) or (kept and _LEAF.match(line)):
            if kept[1:] and _NODE.match(kept[-1]):
                kept.pop()  # the plan's first line looks like any other; the first of all is the message
            continue
        if line.startswith("Traceback"):
            in_stack = True
        elif in_stack and not line.startswith(" "):
            in_stack = False  # the line that names the error
        if not in_stack and not line.lstrip().startswith(("at ", "=== ", "Driver stacktrace:", "... ")):
            kept.append(line)
    # Redacted before it is cut: half a secret would not be recognised.
    return redact("\n".join(kept))[:limit].strip()

"""Errors of PySpark as text for people."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.secrets import redact

# Characters of an error that are looked at; many times what is kept.
_READ = 2**16


def message_of(error: BaseException, limit: int = 1500) -> str:
    """Return an error's message without stacks, plan and secrets, cut at so many characters."""
    # An error may quote a whole record of Kafka, and a driver that looks through megabytes for secrets loses its lease.
    text = str(getattr(error, "desc", None) or error)[:_READ]
    # A StreamingQueryException ends with the query's identity, offsets and whole plan.
    text = text.partition("=== Streaming Query ===")[0].partition("\nJVM stacktrace:")[0]
    kept, in_stack = [], False
    for line in text.splitlines():
        if line.startswith("Traceback"):
            in_stack = True
        elif in_stack and not line.startswith(" "):
            in_stack = False  # the line that names the error
        if not in_stack and not line.lstrip().startswith(("at ", "=== ", "Driver stacktrace:", "... ")):
            kept.append(line)
    # Redacted before it is cut: half a secret would not be recognised.
    return redact("\n".join(kept))[:limit].strip()

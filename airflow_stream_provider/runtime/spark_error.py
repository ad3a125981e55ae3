"""Errors of PySpark as text for people."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.secrets import redact


def message_of(error: BaseException, limit: int = 1500) -> str:
    """Return an error's message without the Java stack and without secrets, cut at so many characters."""
    text = str(getattr(error, "desc", None) or error)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "=== ", "Traceback"))]
    # Redacted before it is cut: half a secret would not be recognised.
    return redact("\n".join(lines))[:limit].strip()

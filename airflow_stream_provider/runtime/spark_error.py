"""Errors of PySpark as text for people."""

from __future__ import annotations


def message_of(error: BaseException, limit: int = 1500) -> str:
    """Return an error's message without the Java stack, cut at so many characters."""
    text = str(getattr(error, "desc", None) or error)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "=== ", "Traceback"))]
    return "\n".join(lines)[:limit].strip()

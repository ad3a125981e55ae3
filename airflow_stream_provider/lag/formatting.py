"""Format numbers for people."""

from __future__ import annotations

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units, such as ``2 h 5 min``; ``?`` when it is unknown."""
    if seconds is None:
        return "?"
    left = round(max(0.0, seconds))
    if left == 0:
        return "0 s"
    parts = []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        parts.append((count, name))
    first = next(i for i, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {name}" for count, name in parts[first : first + 2] if count)


def count(number: int | None, what: str = "") -> str:
    """Return a number with thousands separators, such as ``12,000 records``; ``?`` when it is unknown."""
    text = "?" if number is None else f"{number:,}"
    if not what:
        return text
    return f"{text} {what if number == 1 else what + 's'}"

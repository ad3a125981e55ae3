"""Text that every terminal, log, database and socket takes, made of what a driver or a file says."""

from __future__ import annotations

import re
from typing import Any

# Halves of surrogate pairs, which no encoding takes (a path with an undecodable byte has them); NUL, which PostgreSQL
# does not store; and what else steers a terminal, or turns the direction of what follows. Line ends and tabs stay.
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Return the text with U+FFFD in the place of every character that cannot be encoded or steers a terminal."""
    return _STEERS.sub("\ufffd", text)


def plain_within(value: Any) -> Any:
    """Return the value with every text in it made plain, in lists and mappings too, keys included."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain_within(key): plain_within(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_within(part) for part in value]
    return value

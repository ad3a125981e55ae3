"""For what is there, by the test."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def there(found: T | None) -> T:
    """What was found, which is not None."""
    assert found is not None
    return found

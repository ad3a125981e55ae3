"""The checkpoints that a stream's arguments name, as far as that can be told without running its script."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_stream_provider.checkpoint.location import normal_form

# Not --checkpoint-dir or --checkpoint-root: the script may put its queries' checkpoints below it.
OPTIONS = "--checkpoint, --checkpoint-location and --checkpoint-path"
_OPTION = re.compile(r"--checkpoint(?:[-_]?(?:location|path))?", re.IGNORECASE)


def named_checkpoints(arguments: Sequence[str]) -> dict[str, int]:
    """Return the locations that these options give, in the form in which they are compared.

    :return: by location, the position of the argument that names it.
    """
    found: dict[str, int] = {}
    for number, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if not _OPTION.fullmatch(option):
            continue
        if not equals:
            number += 1
            value = arguments[number] if number < len(arguments) else ""
        if value.strip():
            found.setdefault(normal_form(value), number)
    return found


def is_kept(location: str) -> bool:
    """Return whether a location, as above, is absolute, and in no folder that a machine empties."""
    return "://" in location or (location.startswith("/") and not location.startswith(("/tmp/", "/var/tmp/")))

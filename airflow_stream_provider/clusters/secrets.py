"""Refuse secrets among a script's arguments: they stand in the control log and on the driver's command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_stream_provider.lifecycle.errors import SpecError

_WORDS = r"(?:secret|passw(?:or)?d|passphrase|token|access[_-]?key)"
_OPTION = re.compile(rf"(?i)-{{1,2}}(?:[\w-]*[_-])?{_WORDS}(?:=.*)?")
# A JAAS line or a -D setting inside an argument.
_INSIDE = re.compile(rf"(?i){_WORDS}\s*=\s*\S")


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise SpecError naming the option, never its value, when an argument looks like a secret."""
    for position, argument in enumerate(arguments, 1):
        if _OPTION.fullmatch(argument):
            what = f"The argument {argument.partition('=')[0]!r}"
        elif _INSIDE.search(argument):
            what = f"Argument {position}"
        else:
            continue
        raise SpecError(
            f"{what} looks like a secret, and arguments can be read by everybody who sees the cluster.",
            next_step="Put it where the driver runs instead: its environment, or a file that the application reads.",
            position=position,
        )

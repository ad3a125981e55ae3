"""The findings from before an upgrade touches anything: a sentence each, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.errors import StreamError


class PreflightFailed(StreamError):
    """Something was found with which no upgrade may begin; nothing was touched."""


@dataclass(frozen=True)
class Finding:
    """One thing that a person should know.

    :param refuses: whether no upgrade may begin with it; the others are shown, and nothing more.
    """

    text: str
    next_step: str = ""
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.text} {self.next_step}".strip()


def refuse(findings: Iterable[Finding]) -> list[str]:
    """Return what is to be shown.

    :raises PreflightFailed: one refuses; of several the first.
    """
    found = list(findings)
    worst = next((each for each in found if each.refuses), None)
    if worst is not None:
        raise PreflightFailed(f"{worst.text} Nothing was touched.", next_step=worst.next_step)
    return [str(each) for each in found]

"""The end of a driver's log, for a task that waits for it in vain: short, plain, and without what looks like a secret.

A reader of a task's log need not be allowed to see all that a driver writes.
"""

from __future__ import annotations

import re

from airflow_stream_provider.lifecycle.texts import HIDDEN, plain, redact, secret_setting

READ_BYTES = 64 * 1024
"""So much of a log's end is read. More than is shown: a secret is known by what stands before it."""
SHOWN_BYTES = 8 * 1024
SHOWN_LINES = 40
# The last line with this is shown wherever it is: Kafka's clients, when they try again, write 70 lines after it.
_OURS = "airflow_stream_provider"
_OURS_BYTES = 1024

# Colours and the like: they steer a terminal, and could stand within the name of a secret.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_KEY_THAT_BEGAN_BEFORE = re.compile(r"\A(?:(?!-----BEGIN).)*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
# A setting's name and the word behind it, as lists of a conf have them. Names of Java's classes have a capital letter
# behind a dot, those of files follow a slash. Blanks are not given back: many of them would be tried in every division.
_SETTING = re.compile(
    r"(?<![\w.$/-])([a-z][\w-]{0,99}(?:\.[a-z][\w-]{0,99}){1,20})(?![\w.$/(-])(?=[=:,\s])\s*+[=:,]?\s*+(\S+)"
)


def tail(**logs: str) -> str:
    """Return the ends of a driver's logs, each line indented, so that none looks like a line of the log that shows it.

    :param logs: by name, the last READ_BYTES of each, or all of it. The last one is the one that a person reads first.
    """
    told = {name: lines for name, text in logs.items() if (lines := _lines(text))}
    share = max(1, len(told))
    found: list[str] = []
    for name, lines in told.items():
        found += [f"  {name}:"] if share > 1 else []
        found += [f"  | {line}" for line in _last(lines, SHOWN_LINES // share, SHOWN_BYTES // share)]
    return "\n".join(found)


def _lines(text: str) -> list[str]:
    if len(text.encode(errors="replace")) >= READ_BYTES:
        # The first line may be the rest of one whose beginning names it a password.
        text = text.partition("\n")[2]
    text = _KEY_THAT_BEGAN_BEFORE.sub(HIDDEN, text, count=1)
    text = plain(redact(_ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))))
    return [HIDDEN if _has_secret_setting(line) else line.rstrip() for line in text.splitlines() if line.strip()]


def _has_secret_setting(line: str) -> bool:
    return any(secret_setting(name, value) for name, value in _SETTING.findall(line))


def _last(lines: list[str], count: int, size: int) -> list[str]:
    """Return the last lines, at most so many and of so many bytes in all; of ours the last one, if it is further up."""
    found = _end(lines, count, size)
    ours = next((line for line in reversed(lines) if _OURS in line), "")
    if not ours or any(_OURS in line for line in found):
        return found
    return [*_end([ours], 1, _OURS_BYTES), "…", *_end(lines, count - 2, size - _OURS_BYTES)]


def _end(lines: list[str], count: int, size: int) -> list[str]:
    """Return the last lines; the first of them may be cut."""
    found: list[str] = []
    for line in reversed(lines[-count:]):
        data = line.encode(errors="replace")
        if len(data) > size:
            return [f"…{data[len(data) - size :].decode(errors='ignore')}", *found] if size > 0 else found
        size -= len(data) + 1
        found.insert(0, line)
    return found

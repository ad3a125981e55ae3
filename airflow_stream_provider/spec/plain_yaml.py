"""What YAML may be here: small, flat, and without the parts of the language that make much of little.

Every parse of a DAG file reads all streams' files: one that PyYAML cannot stand would take away the DAGs of all
streams, their watches included.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import yaml

from airflow_stream_provider.lifecycle.errors import SpecError

# A stream's file has about a thousand characters and fifty values.
MAX_BYTES = 64 * 1024
MAX_DEPTH = 16
MAX_NODES = 2000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotPlain(Exception):
    """YAML that is refused; `line` counts from 1."""

    def __init__(self, line: int, sentence: str, next_step: str) -> None:
        super().__init__(sentence)
        self.line = line
        self.sentence = sentence
        self.next_step = next_step


def read_text(path: Path) -> str:
    """Return the text of a file.

    :raises SpecError: it cannot be read, is not a regular file, is larger than MAX_BYTES, or is not UTF-8.
    """
    why = "it is not a file"
    try:
        if stat.S_ISREG(path.stat().st_mode):  # anything else, such as a pipe, could make us wait for ever
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) <= MAX_BYTES:
                return data.decode("utf-8")
            why = f"it has more than {MAX_BYTES} bytes"
    except OSError as error:
        why = error.strerror or "not readable"
    except UnicodeDecodeError:
        why = "not UTF-8 text"
    raise SpecError(f"{path} cannot be read: {why}.", next_step="Check the file.", file=str(path))


def check_plain(text: str) -> None:
    """Raise NotPlain when YAML has anchors, aliases or tags, or is deeper than MAX_DEPTH or longer than MAX_NODES.

    Reads the events one by one: PyYAML's composer, which recurses in C, must not see what is too deep.

    :raises yaml.YAMLError: it is not YAML.
    """
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = event.start_mark.line + 1 if event.start_mark else 1
        nodes += 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            what = "nested too deeply" if depth > MAX_DEPTH else "too long"
            raise NotPlain(line, f"this is {what} for a stream.", "Check what wrote this file.")
        if event.anchor is not None:
            raise NotPlain(line, "anchors and aliases (& and *) are not read here.", "Write the value out.")
        if getattr(event, "tag", None) is not None:
            raise NotPlain(line, "tags (!) are not read here.", "Write the value without its tag, or put it in quotes.")

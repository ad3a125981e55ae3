"""How a stream is watched and brought back: as its YAML declared it last, noted in its control root."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_stream_provider.lifecycle.ids import STREAM
from airflow_stream_provider.spec.folder import StreamFile
from airflow_stream_provider.spec.stream import StreamSpec

# The beginning of the ids of the runs of NAME__upgrade that a look triggers.
CHANGE = "change__"
# The same of those for a fresh driver of the same release.
REFRESH = "refresh__"
# The settings of a YAML that a note has. The control log has the release.
_FIELDS = {"cluster", "kafka", "lag", "watch", "notify", "storage", "storage_connection"}
_NOT_STOPPED = (
    "It runs on, and is watched and brought back as before. A run of its upgrade waits for the file: until then "
    "nothing is judged or rolled back, but by you (`airflow streams roll-back NAME --control URL`)."
)
_MOVED = "{0.source.name}: `control` is {0.control} now, and it is not stopped under {1}."
_GONE = "{0} {1}, and no other file describes {2}."


def some_of(spec: StreamSpec, fields: set[str]) -> dict[str, Any]:
    """Return these settings of a stream, as far as its YAML says them, as a JSON object."""
    return spec.model_dump(mode="json", include=fields, exclude_unset=True)


def with_only(fields: Mapping[str, Any], known: set[str], source: str, **more: str) -> StreamSpec:
    """Return a stream of which only these settings are known; others than the known ones are left out.

    :param source: name of its YAML file.
    :raises ValidationError: they are none of a stream.
    """
    kept = {key: value for key, value in fields.items() if key in known}
    # A stream is not valid without these two, and only a deployment needs them.
    spec = StreamSpec.model_validate({**kept, "application": "none.py", "version": "none", **more})
    spec._source = Path(source)
    return spec


@dataclass(frozen=True)
class Declared:
    """The last declaration of a stream.

    :param spec: with these settings alone.
    :param watch: id of the DAG that watches the stream; empty: none has looked at it yet.
    """

    spec: StreamSpec
    watch: str = ""

    @classmethod
    def read(cls, stream: str, control: str, note: bytes) -> Declared | None:
        """Return what a note of a control root says; None when it is none that this version understands."""
        try:
            said = json.loads(note)
            spec = with_only(said["stream"], _FIELDS, str(said["file"]), name=stream, control=control)
            return cls(spec, str(said["watch"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def note_of(spec: StreamSpec, watch: str) -> bytes:
    """Return the note of a stream; it holds no secret, as the YAML may not.

    :param watch: see `Declared.watch`.
    """
    found = {"file": spec.source.name, "stream": some_of(spec, _FIELDS), "watch": watch}
    return json.dumps(found, sort_keys=True).encode()


def renewed(spec: StreamSpec, note: bytes | None) -> bytes:
    """Return the note of a stream after a deployment; the same watch goes on to look after it."""
    known = Declared.read(spec.name, spec.control, note or b"")
    return note_of(spec, known.watch if known is not None else "")


@dataclass(frozen=True)
class WatchedFolder:
    """The streams that one watch looks after.

    :param streams: by name; as their YAML says, or else as it was declared last.
    :param troubles: by stream, why its YAML cannot be used, or that it is gone or names another control root.
    :param moved: those of them whose YAML names another one, as that says.
    :param left: those of them that no file describes where they are, as far as files can be read.
    :param unknown: the faults of files by which no stream was ever declared.
    """

    streams: Mapping[str, StreamSpec]
    troubles: Mapping[str, str]
    moved: Mapping[str, StreamSpec]
    left: frozenset[str]
    unknown: tuple[str, ...]


def watched_folder(
    watch: str, files: Sequence[StreamFile], notes: Mapping[str, Mapping[str, bytes]], problem: str = ""
) -> WatchedFolder:
    """Return what a watch looks after: the streams that its YAML files describe, and those that are noted as its own.

    :param watch: id of its DAG.
    :param notes: by the URL of a control root, its notes.
    :param problem: why the folder of the files cannot be read; empty: it can.
    """
    good = {file.spec.name: file.spec for file in files if file.spec is not None}
    names = {file.path.name: file.spec.name for file in files if file.spec is not None}
    broken = {file.path.name: str(file.error) for file in files if file.spec is None}
    streams: dict[str, StreamSpec] = {}
    troubles: dict[str, str] = {}
    moved: dict[str, StreamSpec] = {}
    left: set[str] = set()
    unknown = dict(broken)
    for control, noted in notes.items():
        for name, note in noted.items():
            now = good.get(name)
            if (now is not None and now.control == control) or not STREAM.fullmatch(name):
                continue
            declared = Declared.read(name, control, note)
            if declared is None:
                if note and now is None:
                    unknown[name] = f"What was declared of {name} in {control} is damaged, or of another version."
                continue
            if declared.watch not in ("", watch):
                continue
            file = declared.spec.source.name
            unknown.pop(file, None)
            if now is not None:
                moved[name], trouble = now, _MOVED.format(now, control)
            elif problem:
                trouble = f"{name}: its YAML cannot be read."
            elif file in broken:
                trouble = broken[file]
            else:
                left.add(name)
                trouble = _GONE.format(file, f"describes {names[file]} now" if file in names else "is gone", name)
            streams[name], troubles[name] = declared.spec, f"{trouble} {_NOT_STOPPED}"
    unread = (problem,) if problem else ()
    return WatchedFolder(
        {**good, **streams}, troubles, moved, frozenset(left | moved.keys()), (*unread, *unknown.values())
    )


def is_due(spec: StreamSpec, last: float, now: float) -> bool:
    """Return whether a stream is to be looked at: its `watch.schedule` has come round since the last look.

    Streams with the same schedule come round at different times, so that no look gets all of them.

    :param last: when the last look at the folder began, seconds since 1970; 0: every watched stream is due.
    :param now: when this one began.
    """
    every = spec.watch.schedule
    if every is None:
        return False
    offset = zlib.crc32(spec.name.encode()) % every
    return not last or math.floor((last + offset) / every) != math.floor((now + offset) / every)

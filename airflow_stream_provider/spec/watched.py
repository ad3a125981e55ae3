"""Which streams of a folder are watched, and by which declaration: that of the YAML now, or the last good one."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airflow_stream_provider.spec.folder import PLACEHOLDERS, WATCHED_FIELDS, StreamFile, salvage
from airflow_stream_provider.spec.stream import StreamSpec

# XCom: the last good declarations of streams that are to be brought back and whose YAML cannot be used, by DAG name.
LAST_GOOD = "last_good"
# The beginning of the ids of the runs of NAME__upgrade that a look triggers.
CHANGE = "change__"
# Stands in the keys of declarations between a file and a stream that it does not describe any more.
_OF = "/"
_MOVED = (
    "{0.source}: `control` is {0.control} now, where no driver has ever held {0.name}. It is watched under {1}, as "
    "before, but not brought back when it dies. Correct `control`; or, to move it, stop it under the old one first: "
    "docs/control.md."
)
_LEFT = (
    "It is not stopped: it is watched as that declared it last, but not brought back when it dies. Put its YAML back; "
    "to give it up, stop it (`airflow streams stop`) before its YAML is removed or renamed."
)


@dataclass(frozen=True)
class Watched:
    """A stream to watch.

    :param spec: as its YAML says; if that cannot be used, or is gone, its last good declaration.
    :param problem: why its YAML cannot be used, or that it is gone, or names another control root though the stream is
        not stopped; empty: it can be used.
    :param last: whether it is looked at for the last time, as it need not be watched any more: its incidents end.
    """

    spec: StreamSpec
    problem: str = ""
    last: bool = False


@dataclass(frozen=True)
class WatchedFolder:
    """The streams of a folder.

    :param streams: those that can be watched; no two have the same name.
    :param dags: the names by which their DAGs go, by stream. They differ only where a YAML cannot be used; a stream
        that no file describes any more, or none where it is, has none.
    :param declared: the good declarations by file name, for the next look; see `declaration`.
    :param unknown: the faults of files whose streams are not known: they are not watched.
    """

    streams: tuple[Watched, ...]
    dags: Mapping[str, str]
    declared: Mapping[str, Mapping[str, Any]]
    unknown: tuple[str, ...] = ()


def watched_folder(path: Path, files: Sequence[StreamFile], before: Mapping[str, Mapping[str, Any]]) -> WatchedFolder:
    """Return what is to be watched of the files of a folder.

    A file that cannot be used now stands for the stream that it described last, whatever it says now; where it is new,
    for the stream of its name whose own file is gone; where nothing was ever good, for what can be read of it. A stream
    that no file describes any more, or none under the control root that it had, is watched on: half a synchronisation,
    or a typo in `name` or `control`, stops nothing.

    :param path: of the folder.
    :param before: `declared` of the look before, without the streams that need not be watched any more.
    """
    streams: dict[str, Watched] = {}
    dags: dict[str, str] = {}
    declared: dict[str, Mapping[str, Any]] = {}
    unknown: list[str] = []
    by_name = {str(fields.get("name")): fields for fields in before.values()}
    for spec in (file.spec for file in files if file.spec is not None):
        fields = by_name.get(spec.name, {})
        old = declared_spec(spec.source, fields) if fields.get("control", spec.control) != spec.control else None
        if old is not None:
            streams[spec.name] = Watched(old, _MOVED.format(spec, old.control))
            declared[spec.source.name] = fields
        else:
            streams[spec.name], dags[spec.name] = Watched(spec), spec.name
            declared[spec.source.name] = declaration(spec)
    here = {file.path.name: file for file in files}
    renamed = {str(fields.get("name")): fields for name, fields in before.items() if name not in here}
    for file in (file for file in files if file.spec is None):
        fields = before.get(file.path.name) or renamed.get(file.name, {})
        good = declared_spec(file.path, fields)
        known = good or salvage(file.path, str(file.error))
        if known is None:
            unknown.append(str(file.error))
        elif known.name not in streams:
            streams[known.name] = Watched(known, str(file.error))
            dags[known.name] = file.name
            if good is not None:
                declared[file.path.name] = fields
    for key, fields in before.items():
        name, file_name = str(fields.get("name")), key.partition(_OF)[0]
        left = None if name in streams else declared_spec(path / file_name, fields)
        if left is not None:
            found = here.get(file_name)
            now = "is gone" if found is None else f"describes {found.name} now"
            streams[name] = Watched(left, f"{left.source} {now}, and no other file describes {name}. {_LEFT}")
            declared[file_name if found is None else f"{file_name}{_OF}{name}"] = fields
    return WatchedFolder(tuple(streams.values()), dags, declared, tuple(unknown))


def declaration(spec: StreamSpec) -> dict[str, Any]:
    """Return as JSON what the watch needs of a stream's YAML; what the stream runs is in its control log."""
    return spec.model_dump(mode="json", include=set(WATCHED_FIELDS), exclude_unset=True)


def declared_spec(path: Path, fields: Mapping[str, Any]) -> StreamSpec | None:
    """Return the stream of a declaration; None when another version wrote it, and it cannot be understood.

    :param path: the YAML file that it was in.
    """
    try:
        spec = StreamSpec.model_validate({**fields, **PLACEHOLDERS})
    except ValidationError:
        return None
    spec._source = path.absolute()
    return spec


def is_due(spec: StreamSpec, last: float, now: float) -> bool:
    """Return whether a stream is to be looked at: its `watch.schedule` has come round since the last look.

    Streams with the same schedule come round at different times, so that no look gets all of them.

    :param last: the date of the last look at the folder, seconds since 1970; 0: every watched stream is due.
    :param now: the date of this one. Dates of runs and not the clock: a look that is late must not leave a stream out.
    """
    every = spec.watch.schedule
    if every is None:
        return False
    offset = zlib.crc32(spec.name.encode()) % every
    return not last or math.floor((last + offset) / every) != math.floor((now + offset) / every)

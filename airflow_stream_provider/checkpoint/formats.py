"""The formats of a checkpoint, and those that an earlier release may not be able to read.

Spark reads every older format, and none that is newer than it knows, or than its settings say: Spark 4.0 without
`stateStore.checkpointFormatVersion` reads no commit of version 2. Most formats Spark itself keeps on a checkpoint that
exists, whatever its settings say (measured with 4.2.0: offsets, encoding and checksums of state rows, codec).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import check_commit, numeric_names, read_offsets

_STATE = "spark.sql.streaming.stateStore."
# Settings in the offsets file that say how state, or the log itself, is written, with what a Spark does that does not
# know them. Where both files have one, Spark has kept it.
SETTINGS: Mapping[str, str] = {
    f"{_STATE}encodingFormat": "unsaferow",
    f"{_STATE}rowChecksum.enabled": "false",
    f"{_STATE}rocksdb.formatVersion": "5",
    f"{_STATE}rocksdb.mergeOperatorVersion": "1",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
}
# At the beginning of a file, where Java has written the length of the text before it.
_VERSION = re.compile(rb"(?:\0.)?v([0-9]{1,9})", re.DOTALL)
_HEAD = 16


@dataclass(frozen=True)
class Formats:
    """The formats of one checkpoint.

    :param batch: the newest batch in offsets/; None before the first.
    :param versions: by what is written, such as ``commits/``, the version of its format.
    :param settings: those of SETTINGS that are in the newest file of offsets/.
    """

    batch: int | None
    versions: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def formats(location: Location) -> Formats:
    """Read in which formats a checkpoint is written, by its newest files. No driver may write to it meanwhile.

    :raises CheckpointError: a file is damaged, or in a format that is not known.
    :raises OSError: a file cannot be read.
    """
    root = locate(location)
    offsets, commits = numeric_names(root / "offsets"), numeric_names(root / "commits")
    versions, settings = dict(_of_state(root / "state")), {}
    if commits:
        versions["commits/"] = check_commit(root / "commits" / str(commits[-1]))
    if offsets:
        entry = read_offsets(root / "offsets" / str(offsets[-1]))
        versions["offsets/"] = entry.version
        settings = {key: value for key, value in entry.conf.items() if key in SETTINGS}
    return Formats(offsets[-1] if offsets else None, versions, settings)


def one_way(before: Formats, after: Formats) -> list[str]:
    """Return what a release before may not be able to read, a clause each.

    :param before: of a checkpoint before the new release has run on it.
    :param after: of the same after that.
    """
    found = [
        f"{what} in format v{version} instead of v{before.versions[what]}"
        for what, version in after.versions.items()
        if version > before.versions.get(what, version)
    ]
    if before.batch is None:
        return found
    for key, value in after.settings.items():
        was = before.settings.get(key, SETTINGS[key])
        if value != was:
            found.append(f"its files with {key}={value} instead of {was}")
    return found


def _of_state(state: Place) -> Iterable[tuple[str, int]]:
    """Yield the versions of the descriptions of the state, of each operator."""
    for number in numeric_names(state):
        described = state / str(number) / "_metadata"
        # transformWithState keeps a folder of them instead of one file.
        newer = numeric_names(described / "v2")
        version = 2 if newer else _version(described / "metadata")
        schema = _version(state / str(number) / "0" / "_metadata" / "schema")
        for name, found in ((f"state/{number}/_metadata", version), (f"state/{number}/0/_metadata/schema", schema)):
            if found is not None:
                yield name, found


def _version(path: Place) -> int | None:
    try:
        found = _VERSION.match(files_of(path).read(path)[:_HEAD])
    except FileNotFoundError:
        return None
    return int(found[1]) if found else None

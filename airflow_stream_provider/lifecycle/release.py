"""The release that a deployment runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import RELEASE_HASH, check_id
from airflow_stream_provider.lifecycle.texts import plain

_NOT_HASHED = ("hash", "storage", "format")


@dataclass(frozen=True)
class Release:
    """An immutable description of what to run; it travels in the `declared` record.

    :param version: label that a person gave it.
    :param hash: SHA-256 over the description and the contents of all its files, 64 hex digits; empty until it is
        published.
    :param application: name of the script in the release's folder.
    :param arguments: of the script.
    :param py_files: names of the Python modules and zips that go with it.
    :param conf: Spark conf; never secrets.
    :param environment: environment variables of the driver and its executors; never secrets.
    :param storage: URL of the storage that its files were published in; empty: the control folder. No part of `hash`.
    :param format: newest format of records that its runtime knows (`lifecycle.formats`); 1 where it does not say so. No
        part of `hash`.
    """

    version: str
    hash: str = ""
    application: str = ""
    arguments: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    storage: str = ""
    format: int = 1

    def __post_init__(self) -> None:
        # All of these become parts of paths.
        if self.hash:
            check_id(self.hash, RELEASE_HASH)
        for name in (self.application, *self.py_files):
            if name in (".", "..") or "\0" in name or PurePosixPath(name).name != name:
                raise SpecError(
                    f"{name!r} is not the plain name of a file in a release.",
                    next_step="Publish the release again; never write its record by hand.",
                    name=name,
                )

    def to_json(self) -> dict[str, Any]:
        """Return the release as the JSON object that `declared` carries."""
        return {**asdict(self), "arguments": list(self.arguments), "py_files": list(self.py_files)}

    def settings(self) -> dict[str, Any]:
        """Return what `hash` is made of, besides the contents of the files: what the release is, not where it lies."""
        return {key: value for key, value in self.to_json().items() if key not in _NOT_HASHED}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Release:
        """Return the release of a `declared` record; fields that this version does not know are ignored.

        :raises KeyError: it has no version.
        :raises SpecError: its hash, or the name of a file, cannot be part of a path.
        """
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        for name in ("arguments", "py_files"):
            known[name] = tuple(known.get(name, ()))
        said = known.get("format")
        known["format"] = max(1, said) if type(said) is int else 1  # a bool is none
        return cls(**{**known, "version": plain(str(data["version"])), "conf": dict(data.get("conf", {}))})

    def folder(self, stream_folder: Path) -> Path:
        """Return the folder of this release's files under the stream's control folder.

        :raises SpecError: `hash` is no hash; a record that somebody else wrote could lead out of the folder.
        """
        return stream_folder / "releases" / check_id(self.hash, RELEASE_HASH)

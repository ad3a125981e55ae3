"""The release that a person asks for: the YAML, with what the form says instead.

A person who triggers an upgrade names the script. That right must neither run nor read other files of the machine:
Python's own modules, Airflow's configuration, other people's files.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_stream_provider.clusters import (
    refuse_secret_arguments,
    refuse_secret_conf,
    refuse_secret_environment,
)
from airflow_stream_provider.control.releases import make_release
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import check_version
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.spec.stream import StreamSpec

MAX_SCRIPT_BYTES = 5 * 1024 * 1024
# The suffix of a zip with dependencies.
MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
# Archives that Spark puts on its executors' path (SparkContext.PACKAGE_EXTENSIONS); it copies others there in vain.
_IMPORTED = (".zip", ".egg", ".jar")


def check_file(path: Path, folders: Sequence[Path]) -> None:
    """Check that a file may be published.

    :param folders: the file must be inside each of them once all symbolic links are followed.
    :raises SpecError: it is elsewhere, not there, not a regular file, too large, not Python where it says so, or an
        archive that Spark does not import on executors, such as a wheel.
    """
    try:
        real = path.resolve()
        inside = all(real.is_relative_to(folder.resolve()) for folder in folders)
        size = path.stat().st_size if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # a name with NUL, one that is too long, a circle of links
        inside = False
    if not inside:
        raise SpecError(
            f"{path} is outside {folders[-1]}, or leads out of it.",
            next_step="Put it into that folder, which holds the folder of the YAML files. Links may not lead out.",
            path=str(path),
        )
    if size is None:
        raise SpecError(
            f"There is no file {path}.",
            next_step="Check `application` and `py_files`: relative paths start at the folder that holds the folder "
            "of the YAML files.",
            path=str(path),
        )
    limit = MAX_SCRIPT_BYTES if path.suffix == ".py" else MAX_ARCHIVE_BYTES
    if size > limit:
        raise SpecError(
            f"{path} has {size} bytes; {limit} are allowed.",
            next_step="Scripts hold code; give data to the stream by its arguments.",
            path=str(path),
        )
    if path.suffix == ".py":
        _compile(path)
    elif path.suffix.lower() not in _IMPORTED and (path.suffix.lower() == ".whl" or zipfile.is_zipfile(path)):
        raise SpecError(
            f"{path} cannot be imported on executors: of archives, Spark puts only {', '.join(_IMPORTED)} on their "
            "path.",
            next_step="A wheel of pure Python is a zip: rename it to NAME.zip. One with compiled code has to be "
            "installed where the executors run.",
            path=str(path),
        )


def check_script(path: Path, folders: Sequence[Path]) -> None:
    """Check that a file may be the script of a release: as `check_file`, and its name ends in ``.py``."""
    if path.suffix != ".py":
        raise SpecError(f"{path} is not a .py file.", next_step="Name a PySpark script.", path=str(path))
    check_file(path, folders)


def _compile(path: Path) -> None:
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else error
        raise SpecError(
            f"{path}{line}: this is not Python: {what}.", next_step="Correct the script; nothing was submitted."
        ) from error


@dataclass(frozen=True)
class RequestedRelease:
    """The release that a person wants to run: the YAML, with the values of the form in its place.

    :param bundle: folder of the DAG bundle; None: not known.
    :param no_way_back: whether it need not be possible to give the stream back to the release before.
    """

    spec: StreamSpec
    version: str
    application: str
    arguments: tuple[str, ...]
    changed_checkpoints: tuple[str, ...] = ()
    bundle: Path | None = None
    no_way_back: bool = False

    @classmethod
    def of(
        cls,
        spec: StreamSpec,
        version: str | None = None,
        application: str | None = None,
        arguments: Sequence[str] | str | None = None,
        changed_checkpoints: Sequence[str] | str | None = None,
        bundle: Path | None = None,
        *,
        no_way_back: bool = False,
    ) -> RequestedRelease:
        """Build it from an operator's parameters; the YAML fills in what is None or empty.

        :raises SpecError: a list that is given as text is not a JSON list.
        """
        return cls(
            spec,
            version or spec.version,
            application or spec.application,
            spec.arguments if arguments is None else _words("arguments", arguments),
            _words("changed_checkpoints", changed_checkpoints or ()),
            bundle,
            no_way_back,
        )

    @property
    def application_path(self) -> Path:
        """Where the script is."""
        return self.spec.path(self.application)

    @property
    def py_files(self) -> list[Path]:
        """Where the modules that go with it are."""
        return [self.spec.path(name) for name in self.spec.py_files]

    @property
    def folders(self) -> list[Path]:
        """The folders that every file must be inside of: `root` of the stream, and the bundle that holds its YAML."""
        root = self.spec.root
        # The bundle lies deeper when the YAML files are in its topmost folder.
        holds = self.bundle is not None and self.spec.source.resolve().is_relative_to(self.bundle.resolve())
        return [root, self.bundle] if self.bundle is not None and holds else [root]

    def check(self) -> None:
        """Raise SpecError unless this may be published.

        Every file must be there, inside `folders` and Python; the version must be a plain
        label; other arguments than the YAML's must be allowed there; each of `changed_checkpoints` must be a change
        that can be named; and nothing may look like a secret.
        """
        check_version(self.version)
        locations(self.changed_checkpoints, Change.CHECKPOINT)  # whether each entry can be read
        refuse_secret_conf(self.spec.conf)
        refuse_secret_environment(self.spec.environment)
        refuse_secret_arguments(self.arguments)
        if self.arguments != self.spec.arguments and not self.spec.upgrade.free_arguments:
            raise SpecError(
                f"The arguments are not those of {self.spec.source.name}, and it does not allow others.",
                next_step="Change them there, or write upgrade: {free_arguments: true} there, then trigger again.",
            )
        check_script(self.application_path, self.folders)
        for path in self.py_files:
            check_file(path, self.folders)

    def make(self) -> tuple[Release, dict[str, bytes]]:
        """Return the release with its files by name, as it would be published; nothing is stored.

        :raises SpecError: as `check`; or two files have the same name, or a py-file has one that Spark cannot list.
        """
        self.check()
        return make_release(
            version=self.version,
            application=self.application_path,
            arguments=self.arguments,
            py_files=self.py_files,
            conf=self.spec.conf,
            environment=self.spec.environment,
        )


def _words(name: str, value: Sequence[str] | str) -> tuple[str, ...]:
    """Return a list of words, also from the JSON that a template makes of it."""
    if not isinstance(value, str):
        return tuple(str(word) for word in value)
    try:
        words = json.loads(value or "[]")
        if not isinstance(words, list):
            raise ValueError(type(words).__name__)
    except ValueError as error:
        raise SpecError(
            f"`{name}` is not a JSON list.", next_step='Write it like ["--input", "orders"], or use `| tojson`.'
        ) from error
    return tuple(str(word) for word in words)

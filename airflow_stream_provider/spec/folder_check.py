"""Everything that is wrong with a folder of YAML files, by nothing but what lies on this disk: for CI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airflow_stream_provider.checkpoint.location import normal_form
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.place import manifest_of
from airflow_stream_provider.spec.fields import NAME_A_PACKAGE, no_packages
from airflow_stream_provider.spec.folder import read_folder
from airflow_stream_provider.spec.requested_release import RequestedRelease, check_file, check_script
from airflow_stream_provider.spec.spark_versions import TRY_IT, parts_of_spark, untried
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.spec.yaml_file import Field, YamlFile

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


@dataclass(frozen=True)
class FolderCheck:
    """The findings.

    :param files: names of the YAML files.
    :param streams: the streams that can be used, by name.
    :param errors: by file and line; each names both, and the field.
    :param warnings: in the same form, what may be meant so.
    """

    files: tuple[str, ...]
    streams: tuple[str, ...]
    errors: tuple[SpecError, ...]
    warnings: tuple[SpecError, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        errors, warnings = (
            [{**_place(each), "message": each.message, "next_step": each.next_step} for each in found]
            for found in (self.errors, self.warnings)
        )
        return {"files": list(self.files), "streams": list(self.streams), "errors": errors, "warnings": warnings}


def check_folder(folder: str | Path) -> FolderCheck:
    """Check every YAML file of a folder, and the files of their releases. Asks no connection, network or control log.

    :raises SpecError: the folder is not there, or has no YAML file.
    """
    found = read_folder(folder)
    if not found:
        raise SpecError(
            f"There is no YAML file in {folder}.",
            next_step="Name the folder of the streams' files, whose names end in .yaml or .yml.",
            folder=str(folder),
        )
    errors: list[SpecError] = []
    warnings: list[SpecError] = []
    specs: list[tuple[YamlFile, StreamSpec]] = []
    for file in found:
        own = _errors_of_fields(file.path)
        errors += own
        if own:
            continue
        if file.error is not None:
            errors.append(file.error)  # another file describes the same stream
        yaml, spec = YamlFile.read(file.path), load_spec(file.path)
        errors += [*_errors_of_files(yaml, spec), *_errors_of_packages(yaml, spec)]
        warnings += _warnings(yaml, spec)
        specs.append((yaml, spec))
    errors += _errors_of_checkpoints(specs)
    for each in (errors, warnings):
        each.sort(key=lambda error: (_place(error)["file"], _place(error)["line"]))
    wrong = {error.fields["file"] for error in errors}
    streams = sorted(file.spec.name for file in found if file.spec is not None and str(file.path) not in wrong)
    return FolderCheck(tuple(file.path.name for file in found), tuple(streams), tuple(errors), tuple(warnings))


def _place(error: SpecError) -> dict[str, Any]:
    # A file that cannot be read has neither lines nor fields.
    return {"line": 1, "field": "", **error.fields}


def _errors_of_fields(path: Path) -> list[SpecError]:
    try:
        file = YamlFile.read(path)
    except SpecError as error:
        return [error]
    try:
        StreamSpec.model_validate(file.fields)
    except ValidationError as error:
        return file.refuse(error, StreamSpec)
    return []


def _errors_of_files(yaml: YamlFile, spec: StreamSpec) -> list[SpecError]:
    """Return why files of the release could not be published."""
    requested = RequestedRelease.of(spec)
    checks: list[tuple[Field, Callable[[Path, Sequence[Path]], None], Path]] = [
        (("application",), check_script, requested.application_path),
        *((("py_files", number), check_file, path) for number, path in enumerate(requested.py_files)),
    ]
    errors = []
    for field, check, path in checks:
        try:
            check(path, requested.folders)
        except SpecError as error:
            errors.append(yaml.error(field, error.message, next_step=error.next_step))
    if errors:
        return errors
    try:
        release, files = requested.make()
        if spec.storage and not StorageAddress.parse(spec.storage).is_folder:
            manifest_of(release, files)
    except SpecError as error:  # of the files' names: each alone is as it should be
        field = ("py_files",) if spec.py_files else ("application",)
        return [yaml.error(field, error.message, next_step=error.next_step)]
    return []


def _errors_of_packages(yaml: YamlFile, spec: StreamSpec) -> Iterator[SpecError]:
    for text in no_packages(spec.conf):
        yield yaml.error(("conf", "spark.jars.packages"), text, next_step=NAME_A_PACKAGE)


def _warnings(yaml: YamlFile, spec: StreamSpec) -> Iterator[SpecError]:
    if not spec.notify and spec.watch.schedule is not None:
        yield yaml.error(
            ("notify",),
            "nobody is told when the stream is down or behind: the watch only logs it.",
            next_step="Name a notifier or a function there: docs/watch.md.",
        )
    for location, number in named_checkpoints(spec.arguments).items():
        if not is_kept(location):
            yield yaml.error(
                ("arguments", number),
                f"the checkpoint {location} is relative, or in a folder for temporary files.",
                next_step="Unless the script makes another path of it: name an absolute one, on a storage that all "
                "drivers reach and nobody empties. A relative one is refused when the query starts.",
            )
    named = {untried(version) for _, version in parts_of_spark(spec.conf)}
    for text in sorted(named - {""}):
        yield yaml.error(("conf",), text, next_step=TRY_IT)


def _errors_of_checkpoints(specs: Sequence[tuple[YamlFile, StreamSpec]]) -> Iterator[SpecError]:
    """Yield the checkpoints that an earlier file names as well, for another stream."""
    owners: dict[str, tuple[str, str]] = {}
    for yaml, spec in specs:
        for location, number in named_checkpoints(spec.arguments).items():
            owner, where = owners.setdefault(location, (spec.name, yaml.path.name))
            if owner != spec.name:
                yield yaml.error(
                    ("arguments", number),
                    f"the checkpoint {location} is that of the stream {owner!r} ({where}), too.",
                    next_step="Give each stream its own: the second one would be refused when it starts. If the script "
                    f"puts others below it, name its option otherwise: only {OPTIONS} are compared.",
                )

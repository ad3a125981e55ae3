"""The YAML files of a watched folder, the streams that they have left behind, and what one look leaves for the next."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from airflow_stream_provider.control.bounded import NoAnswer, call
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StreamError
from airflow_stream_provider.lifecycle.stored import known_fields
from airflow_stream_provider.spec.folder import read_folder
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import Watched, WatchedFolder, hash_of, watched_folder

# Seconds in which the files must have been read.
READ_SECONDS = 60.0
# When the YAML of more streams than these breaks between two looks, people are told once for all of them.
MAX_BROKEN = 20
# Files that an alert names.
NAMED = 5

T = TypeVar("T")


def read_watched(
    folder: str | Path,
    declared: Callable[[], Mapping[str, Mapping[str, Any]]],
    known: str,
    given_up: Callable[[Sequence[StreamSpec]], Collection[str]],
) -> WatchedFolder:
    """Return what is to be watched of a folder; where that is gone, what was watched of it.

    :param declared: returns the good declarations that the last look knew, by file name; called only when needed, since
        they are large.
    :param known: their hash; see `hash_of`.
    :param given_up: returns those names of streams that no file describes any more which need not be watched; they are
        looked at for the last time.
    :raises SpecError: the folder hangs, or is gone and nothing is known of it.
    """
    path = Path(folder)
    there = _in_time(path.is_dir, folder)
    files = _in_time(partial(read_folder, path), folder) if there or not declared() else []

    def read(before: Mapping[str, Mapping[str, Any]]) -> WatchedFolder:
        return _in_time(partial(watched_folder, path, files, before), folder)

    found = read({})
    if all(file.spec is not None for file in files) and hash_of(found.declared) == known:
        return found
    before = declared()
    found = read(before)
    left = [each.spec for each in found.streams if each.spec.name not in found.dags]
    gone = given_up(left) if left else ()
    if not gone:
        return found
    found = read({key: fields for key, fields in before.items() if fields.get("name") not in gone})
    return replace(found, streams=(*found.streams, *(Watched(each, last=True) for each in left if each.name in gone)))


def told_in_common(broken: Collection[str], before: Mapping[str, bool]) -> dict[str, bool]:
    """Return, by stream whose YAML cannot be used, whether people are told of it in one incident for many.

    That stays so for as long as it cannot be used: else other files that break, or are mended, would make it seem well.

    :param before: what this returned at the look before.
    """
    new = set(broken) - before.keys()
    return {name: before.get(name, len(new) > MAX_BROKEN) for name in sorted(broken)}


def unusable(folder: WatchedFolder, in_common: Mapping[str, bool]) -> tuple[str, int]:
    """Return sentences on the files that no stream's own incident covers, and the number of these files.

    :param in_common: see `told_in_common`.
    """
    broken = [each.problem for each in folder.streams if each.problem and in_common.get(each.spec.name)]
    says = []
    if folder.unknown:
        says.append(f"Their streams are not watched, as nothing is known of them: {_first(folder.unknown)}")
    if broken:
        says.append(f"{len(broken)} streams have a YAML that cannot be used: {_first(broken)}")
    return " ".join(says), len(folder.unknown) + len(broken)


def _in_time(read: Callable[[], T], folder: str | Path) -> T:
    """Return what reading a folder returns or raises; where its mount hangs, a SpecError after READ_SECONDS."""
    try:
        return call(read, READ_SECONDS, "The folder")
    except NoAnswer:
        raise SpecError(
            f"The YAML files in {folder} could not be read within {READ_SECONDS:.0f} s.",
            next_step="Look at the mount of this folder on the worker.",
            folder=str(folder),
        ) from None


def _first(problems: Sequence[str]) -> str:
    more = f" And {len(problems) - NAMED} more." if len(problems) > NAMED else ""
    return " ".join(problems[:NAMED]) + more


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LookMemory:
    """The memory of a look for the next one; small, since every look writes one.

    :param at: date of the last scheduled look that did not fail, seconds since 1970; 0: none.
    :param streams: what `look_at_all` left.
    :param incident: that the watch itself fails, as `tell_of_watch` left it.
    :param files: that YAML files cannot be used, as `tell_of_watch` left it.
    :param skipped: whether the last look left its work to one that waited.
    :param moved: the control URLs that streams had before, of those that have moved without being told to.
    :param broken: the streams whose YAML cannot be used; see `told_in_common`.
    :param unusable: how many files the incident of `files` is about.
    :param declared: hash of the good declarations that were kept last, and when: seconds since 1970.
    :param revived: the last stream that was to be brought back: the next look begins after it.
    """

    at: float = 0.0
    streams: Mapping[str, Any] = field(default_factory=dict)
    incident: Mapping[str, Any] = field(default_factory=dict)
    declared: str = ""
    declared_at: float = 0.0
    revived: str = ""
    files: Mapping[str, Any] = field(default_factory=dict)
    skipped: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, bool] = field(default_factory=dict)
    unusable: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> LookMemory:
        """Return what `to_json` wrote; nothing when there is none, or another version wrote it."""
        try:
            return cls(**known_fields(cls, data or {}))
        except ValueError:
            log.warning("What the last look left was written by another version; beginning anew.")
            return cls()


# Seconds for looking at all of them.
SECONDS = 10.0


def moved(
    specs: Iterable[StreamSpec], declared: Iterable[Mapping[str, Any]], before: Mapping[str, str]
) -> dict[str, str]:
    """Return the control URLs that streams had, by stream, of those that have another one now.

    :param declared: the declarations of the look before; see `spec.watched.declaration`.
    :param before: what this returned then, without what is settled.
    """
    controls = {str(fields.get("name")): str(fields.get("control")) for fields in declared if fields.get("control")}
    old = {**controls, **before}
    return {spec.name: old[spec.name] for spec in specs if old.get(spec.name, spec.control) != spec.control}


def unsettled(moved: Mapping[str, str], specs: Mapping[str, StreamSpec]) -> dict[str, str]:
    """Return what people must be told of streams that have moved, by stream; one that is left out is settled.

    A stream is settled once a driver has held it under its new control root: before, no driver may use its checkpoint
    there. So is one that, under the old one, has no folder (any more), was stopped, has finished or was never held.

    :param moved: control URLs that they had.
    """
    from airflow_stream_provider.control.bounded import gather
    from airflow_stream_provider.monitoring.folder_reading import opened

    for url in {*moved.values(), *(specs[name].control for name in moved)}:
        opened(url)  # here, as threads cannot read Airflow's connections; an error is said below
    reads = {name: partial(_is_left_alone, specs[name], old) for name, old in moved.items()}
    # A stream that cannot be read is not settled.
    answers = gather(reads, SECONDS)
    return {
        name: f"{specs[name].source}: `control` is {specs[name].control} now, where no driver has ever held {name}; it "
        f"was last watched under {moved[name]}, and nobody watches it there now. Correct `control`; or, to move it, "
        "stop it under the old one first: docs/control.md."
        for name, answer in answers.items()
        if answer is not True
    }


def given_up(left: Sequence[StreamSpec], watch: str, told: Collection[str] = ()) -> set[str]:
    """Return the names of those streams that need not be watched any more, though no file describes them.

    They were never deployed, were stopped, have finished, or were never held. Or another watch looks at them, as their
    YAML is in another folder now. Or their control log has gone, too, and people know of that. A stream that cannot be
    read is watched on.

    :param watch: id of the DAG that asks.
    :param told: the streams, and the URLs of control roots, that the watch could not look at as it should, as people
        were told.
    """
    from airflow_stream_provider.control.bounded import gather
    from airflow_stream_provider.monitoring.folder_reading import opened

    # Here, as threads cannot read Airflow's connections; what is wrong with one the look says.
    roots = {url: opened(url) for url in {spec.control for spec in left}}
    reads = {spec.name: partial(_is_given_up, spec, watch, roots[spec.control], told) for spec in left}
    answers = gather(reads, SECONDS)
    return {name for name, answer in answers.items() if answer is True}


def _is_given_up(spec: StreamSpec, watch: str, root: ControlRoot | StreamError, told: Collection[str]) -> bool:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.monitoring.samples import last
    from airflow_stream_provider.planning.stream_health import RESTING

    if isinstance(root, StreamError):
        raise root
    hook = StreamHook(spec.name, spec.control, spec.cluster)
    if not hook.exists():
        return spec.name in told or spec.control in told or spec.name not in root.seen()
    if hook.control_log.refresh().phase in RESTING:
        return True
    sample = last(hook.samples)
    return sample is not None and sample.by not in ("", watch)


def _is_left_alone(spec: StreamSpec, old: str) -> bool:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.planning.stream_health import RESTING

    with contextlib.suppress(ControlUnavailable):  # people are told of that root
        new = StreamHook(spec.name, spec.control, spec.cluster)
        if new.exists() and new.control_log.refresh().epoch:
            return True
    hook = StreamHook(spec.name, old, spec.cluster)
    return not hook.exists() or hook.control_log.refresh().phase in RESTING

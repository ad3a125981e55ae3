"""Mark which stream owns a checkpoint, in a file beside it.

In a local or mounted folder the file is created once, so that it decides. On other storage two drivers may both create
it: there it only finds what one control root knows of another, and `runtime.ownership` asks the control store as well.

A location that is a symbolic link has the file beside the folder that the link leads to, or one checkpoint would have
an owner for each of its names.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import Location, files_of, followed, locate
from airflow_stream_provider.checkpoint.logs import LogEnds, boundary, kind_of, numeric_names, unreadable
from airflow_stream_provider.lifecycle.errors import CheckpointError

POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Owner:
    """The owner of a checkpoint.

    :param stream: name of the stream.
    :param control: control URL of the stream.
    :param log: the first record's nonce in its control log (`Store.origin`), as one URL may lead to another log: a
        connection to another Kafka, a mount to another disk. Empty: not known, as to a mere reader, or while that
        record cannot be read.
    """

    stream: str
    control: str
    log: str = field(default="", compare=False)


def owner_file(location: Location) -> Place:
    """Return the place of the owner file, beside the checkpoint: Spark wants a new checkpoint to be empty.

    :raises CheckpointError: the location is a symbolic link that leads nowhere, or cannot be followed.
    """
    path = followed(location)
    return path.with_name(f"{path.name}.owner")


def owner(location: Location) -> Owner | None:
    """Return the owner of a checkpoint, None if it has none.

    :raises CheckpointError: the owner file cannot be read, or does not name a stream.
    """
    return _read(owner_file(location))


def _read(path: Place) -> Owner | None:
    try:
        value = json.loads(files_of(path).read(path))
        return Owner(stream=str(value["stream"]), control=str(value["control"]), log=str(value["log"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"The owner file {path} does not name a stream.",
            next_step="Find out which job writes the checkpoint. Remove the file once no job does.",
            path=str(path),
        ) from error


def check_owner(location: Location, stream: str, control: str, log: str = "") -> bool:
    """Return True if the stream owns the checkpoint, False if it has no owner.

    :param log: see `Owner`; default: not known, so that the URL alone counts.
    :raises CheckpointError: it belongs to another stream, to a stream of the same name under another control URL, or to
        that of another control log under this URL.
    """
    file = owner_file(location)
    found = _read(file)
    if found is not None:
        _check(location, file, found, Owner(stream, control, log))
    return found is not None


def _check(location: Location, file: Place, found: Owner, wanted: Owner) -> None:
    stream, control = wanted.stream, wanted.control
    if found == wanted and wanted.log and found.log and wanted.log != found.log:
        raise _other_log(location, file, found)
    if found != wanted:
        if found.stream == stream:
            # The reader may be about to let a second driver write, out of the sight of the first one's log.
            next_step = f"Correct `control`. To move the stream, stop it under {found.control} first, see that none of "
            next_step += f"its drivers is left on the cluster, then remove {file}: see docs/control.md."
        else:
            next_step = "Give each stream its own checkpoint. If the other stream will never run again, remove "
            next_step += f"{file}."
        raise CheckpointError(
            f"The checkpoint {locate(location)} belongs to the stream {found.stream} of {found.control}, "
            f"not to {stream} of {control}.",
            next_step=next_step,
            location=str(location),
            owner=found.stream,
        )


def _other_log(location: Location, file: Place, found: Owner) -> CheckpointError:
    # As above: drivers of the other log are not seen here.
    return CheckpointError(
        f"The checkpoint {locate(location)} belongs to the stream {found.stream} of {found.control}, but of another "
        "control log than that URL leads to now: its connection or its mount leads elsewhere than before, or the log "
        "was begun anew.",
        next_step="Let the URL lead to the control log from before. If there is none any more, see that no driver of "
        f"the stream is left on any cluster, then remove {file}: see docs/control.md.",
        location=str(location),
        owner=found.stream,
    )


def claim(location: Location, stream: str, control: str, log: str = "") -> None:
    """Make the stream the owner of the checkpoint, permanently. Claiming it again has no effect.

    If two streams claim it at the same time, one of them succeeds: in a local or mounted folder only.

    :param control: control URL. Another spelling of the same URL counts as another owner.
    :param log: see `Owner`; default: not known.
    :raises CheckpointError: it belongs to another stream, or its parent folder is not writable.
    """
    path = owner_file(location)
    if check_owner(location, stream, control, log):
        return
    try:
        text = json.dumps({"stream": stream, "control": control, "log": log}) + "\n"
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
            created = _create(path, text)
        else:
            with contextlib.suppress(FileExistsError):
                path.files.write(path, text.encode())
            created = False  # it may be another's that came between
        if not created:
            check_owner(location, stream, control, log)
    except OSError as error:
        raise kind_of(error)(
            f"The owner file {path} cannot be written: {error.strerror or error}.",
            next_step="Give the driver's user write access to the folder that the checkpoint is in.",
            path=str(path),
        ) from error


def is_being_written(location: Location, seconds: float) -> bool:
    """Return whether a job writes the logs of a checkpoint within a time.

    False does not prove that no job runs: one that waits for data or is in a long batch writes nothing.

    :param seconds: how long to watch; returns earlier if it sees a write.
    """
    before = boundary(location)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(min(POLL_SECONDS, seconds))
        if boundary(location) != before:
            return True
    return False


def refuse_if_being_written(location: Location, seconds: float | None = None, *, since: LogEnds | None = None) -> None:
    """Refuse to take over a checkpoint that a job without a stream is writing now.

    :param seconds: how long to watch. Default: `patience`. A checkpoint without logs is not watched.
    :param since: its boundary at an earlier look; it must not have moved since.
    :raises CheckpointError: a job is writing the logs.
    """
    root = locate(location)
    now = boundary(root)
    moved = since is not None and now != since
    if now.offsets is None and not moved:
        return
    if moved or is_being_written(root, seconds if seconds is not None else patience(root)):
        raise CheckpointError(
            f"The checkpoint {root} is being written by a job that does not belong to a stream.",
            next_step="Stop that job, best while it waits for data, then deploy again. The stream continues where the "
            "job stopped.",
            location=str(root),
        )


def patience(location: Location) -> float:
    """Return the seconds for which a checkpoint must stand still before it counts as not being written.

    Three times the longest interval between the last ten commits, at least 5 and at most 60.

    :raises CheckpointError: its logs cannot be read.
    """
    root = locate(location)
    commits = [root / "commits" / str(batch) for batch in numeric_names(root / "commits")[-10:]]
    # Without those that the job has purged meanwhile.
    times = [facts.modified for facts in files_of(root).facts(commits) if facts]
    longest = max((later - earlier for earlier, later in zip(times, times[1:])), default=0.0)
    return min(60.0, max(5.0, 3 * longest))


def _create(path: Path, text: str) -> bool:
    """Create a file atomically, so that no reader sees a part of it. Return False if it exists."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            # A temporary file is for its user alone; Airflow's, and that of the next driver, may be another one.
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.link(file.name, path)
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True

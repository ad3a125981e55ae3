"""Whose a checkpoint is: a file beside it, created once, naming the stream that may write it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_stream_provider.checkpoint.location import local_path
from airflow_stream_provider.checkpoint.logs import boundary, numeric_names, unreadable
from airflow_stream_provider.lifecycle.errors import CheckpointError

POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Owner:
    """The stream a checkpoint belongs to, and the control log where that stream's holder is agreed on."""

    stream: str
    control: str


def owner_file(location: str | os.PathLike[str]) -> Path:
    """Return the path of the owner file, beside the checkpoint: Spark refuses a new one that is not empty."""
    path = local_path(location)
    return path.with_name(f"{path.name}.owner")


def owner(location: str | os.PathLike[str]) -> Owner | None:
    """Return whose the checkpoint is; None when nobody has claimed it.

    :raises CheckpointError: the owner file cannot be read, or is not one of ours.
    """
    path = owner_file(location)
    try:
        value = json.loads(path.read_text("utf-8"))
        return Owner(stream=str(value["stream"]), control=str(value["control"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"The owner file {path} does not name a stream.",
            next_step="Find out which job writes the checkpoint; remove the file once none does.",
            path=str(path),
        ) from error


def check_owner(location: str | os.PathLike[str], stream: str, control: str) -> bool:
    """Return whether the checkpoint is claimed by this stream, False when by nobody.

    :raises CheckpointError: it belongs to another stream, or to one of this name in another control log.
    """
    found = owner(location)
    if found is not None and found != Owner(stream, control):
        raise CheckpointError(
            f"The checkpoint {local_path(location)} belongs to the stream {found.stream} of {found.control}, "
            f"not to {stream} of {control}.",
            next_step="Give each stream a checkpoint of its own. If the other stream is retired for good, "
            f"remove {owner_file(location)}.",
            location=str(location),
            owner=found.stream,
        )
    return found is not None


def claim(location: str | os.PathLike[str], stream: str, control: str) -> None:
    """Make the checkpoint this stream's, for good; claiming it again changes nothing. One of two at once wins.

    :param control: URL of the control log; another spelling of the same place is another owner.
    :raises CheckpointError: it belongs to another stream, or the folder it is in cannot be written.
    """
    if check_owner(location, stream, control):
        return
    path = owner_file(location)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _create(path, json.dumps(asdict(Owner(stream, control))) + "\n"):
            check_owner(location, stream, control)
    except OSError as error:
        raise CheckpointError(
            f"The owner file {path} cannot be written: {error.strerror or error}.",
            next_step="Give the driver's user write access to the folder that the checkpoint is in.",
            path=str(path),
        ) from error


def moving(location: str | os.PathLike[str], seconds: float) -> bool:
    """Watch the logs of a checkpoint and return whether somebody writes them; returns early when it sees so.

    A job that waits for data, or that is within one long batch, writes nothing: False is no proof that none runs.
    """
    before = boundary(location)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(min(POLL_SECONDS, seconds))
        if boundary(location) != before:
            return True
    return False


def refuse_moving(location: str | os.PathLike[str], seconds: float | None = None) -> None:
    """Refuse to take over a checkpoint that some job, unknown to us, is writing now.

    :param seconds: how long to watch; default: three of the checkpoint's own intervals between commits, at least
        5 and at most 60. Nothing is watched where there are no logs yet.
    :raises CheckpointError: its logs move.
    """
    root = local_path(location)
    if boundary(root).offsets is None:
        return
    if moving(root, seconds if seconds is not None else _patience(root)):
        raise CheckpointError(
            f"The checkpoint {root} is being written by a job that no stream manages.",
            next_step="Stop that job, best when it waits for data, then deploy again: the stream goes on "
            "where it stopped.",
            location=str(root),
        )


def _patience(root: Path) -> float:
    times = []
    for batch in numeric_names(root / "commits")[-10:]:
        with contextlib.suppress(FileNotFoundError):  # the job purged it
            times.append((root / "commits" / str(batch)).stat().st_mtime)
    longest = max((later - earlier for earlier, later in zip(times, times[1:])), default=0.0)
    return min(60.0, max(5.0, 3 * longest))


def _create(path: Path, text: str) -> bool:
    """Create the file with its whole content, so that nobody sees an empty or torn one; False when it is there."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
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

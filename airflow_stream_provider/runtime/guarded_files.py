"""Keeps a script's own calls away from its stream's checkpoints and outputs while another driver may write them.

A script runs in every driver, also in one that only stands by: a `shutil.rmtree(checkpoint)` in its first lines would
take the running release's place in its input away. Python tells an audit hook of each such call before it is made.
Calls through the JVM, another process or a library of its own are not seen.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_stream_provider.checkpoint import local_path
from airflow_stream_provider.control.bounded import OWN_THREADS
from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.lifecycle.state import Incarnation

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC

log = logging.getLogger(__name__)


class _Use(NamedTuple):
    """An argument of an audit event that names what is changed.

    :param path: its position.
    :param folder: position of the descriptor of the folder that it is relative to; None: there is none.
    :param follows: whether the call goes where a symbolic link leads.
    :param whole: whether what is below is changed with it.
    """

    path: int
    folder: int | None = None
    follows: bool = False
    whole: bool = False


# By audit event, as CPython 3.9 and later raise them; `os.replace` is `os.rename`, `os.unlink` is `os.remove`.
_USES: Mapping[str, tuple[_Use, ...]] = {
    "open": (_Use(0, follows=True),),
    "os.truncate": (_Use(0, follows=True),),
    "os.remove": (_Use(0, 1),),
    "os.rmdir": (_Use(0, 1),),
    "os.rename": (_Use(0, 2, whole=True), _Use(1, 3)),
    "os.link": (_Use(1, 3),),
    "os.symlink": (_Use(1, 2),),
    "shutil.rmtree": (_Use(0, 1, whole=True),),
}


class GuardedFiles:
    """The checkpoints and outputs of a stream's holders, as far as they are files of this machine.

    :param holds: whether this driver runs the queries, so that its script may do with its outputs as it likes.
    :param holder: returns the driver that holds or held last; None: none ever did.
    """

    def __init__(self, stream: str, holds: Callable[[], bool], holder: Callable[[], Incarnation | None]) -> None:
        self._stream = stream
        self._holds = holds
        self._holder = holder
        # By real path, what it is, and whose.
        self._known: dict[str, str] = {}
        self._noted = ""

    def install(self, queries: Sequence[Mapping[str, Any]]) -> None:
        """Refuse from now on, for as long as this process lives; call it before the script runs.

        :param queries: all that is known of the holder's, also of those that its script has started later.
        """
        holder = self._holder()
        if holder is not None:
            self._note(holder, queries)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        uses = _USES.get(event)
        # Each import, and each file that is only read, comes by here.
        if uses is None or (event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES)):
            return
        if self._holds() or threading.current_thread().name.startswith(OWN_THREADS):
            return
        holder = self._holder()
        if holder is not None and holder.id != self._noted:
            self._note(holder, holder.queries)
        for use in uses:
            path = _real(arguments, use)
            found = "" if path is None else self._guarded(path, use.whole)
            if found:
                error = StreamError(
                    f"The script wanted to change {path} ({event}), which belongs to {found}. This driver does not "
                    "hold the stream: the holder, now or later, needs it as it is.",
                    next_step="Let the script leave checkpoints and outputs alone until its queries run: such work "
                    "belongs into the function of foreachBatch, or into another job. A checkpoint that is to begin "
                    "anew gets another location.",
                    path=path,
                )
                log.error("%s", error)
                raise error

    def _guarded(self, path: str, whole: bool) -> str:
        for place, whose in self._known.items():
            if path == place or path.startswith(f"{place}/") or (whole and place.startswith(f"{path.rstrip('/')}/")):
                return f"{place}, {whose}"
        return ""

    def _note(self, holder: Incarnation, queries: Sequence[Mapping[str, Any]]) -> None:
        self._noted = holder.id
        known = dict(self._known)  # another thread may be looking at it
        for query in queries:
            whose = f"of the query {query.get('name')} of the stream {self._stream}"
            for key, what in (("checkpoint", "checkpoint"), ("target", "output")):
                for place in _places(query.get(key)):
                    known[place] = f"the {what} {whose}, which {holder.deployment} runs or ran last"
        self._known = known


def _places(location: Any) -> set[str]:
    """Return the real paths of a folder and of a link that leads there; none when it is not of this machine."""
    if not isinstance(location, str) or not location.startswith(("/", "file:")):
        return set()  # such as a topic
    try:
        path = local_path(location)
    except CheckpointError:
        return set()
    return {os.path.realpath(path), os.path.join(os.path.realpath(path.parent), path.name)}


def _real(arguments: tuple[Any, ...], use: _Use) -> str | None:
    """Return the real path of what a call changes; None where it is a descriptor, which was opened before."""
    if use.path >= len(arguments):
        return None
    path = arguments[use.path]
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if not isinstance(path, (str, bytes)):
        return None
    name = os.fsdecode(path)
    folder = arguments[use.folder] if use.folder is not None and use.folder < len(arguments) else None
    if isinstance(folder, int) and folder >= 0:
        name = os.path.join(os.path.realpath(f"/proc/self/fd/{folder}"), name)
    if use.follows:
        return os.path.realpath(name)
    above, last = os.path.split(name.rstrip("/"))
    # `..` is resolved as the operating system does.
    return os.path.realpath(name) if last in ("", ".", "..") else os.path.join(os.path.realpath(above), last)

"""guarded_calls.py ROOT: makes the calls of a script in a driver that does not hold, and prints what became of each.

It runs in a process of its own, as an audit hook stays for the life of a process, on every supported Python.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.state import Incarnation, IncarnationState
from airflow_stream_provider.runtime.guarded_files import GuardedFiles

root = Path(sys.argv[1])
checkpoint, output, late = root / "checkpoints" / "lines", root / "lines", root / "checkpoints" / "late"
for folder in (checkpoint / "commits", output, late, root / "checkpoints.old", checkpoint.with_name("lines.old")):
    folder.mkdir(parents=True)
(checkpoint / "metadata").write_text("kept")
(checkpoint.with_name("lines.owner")).write_text("kept")
(output / "part-0.json").write_text("kept")
(root / "link").symlink_to(checkpoint)
(root / "mine").write_text("x")

queries = [{"name": "lines", "checkpoint": f"file:{checkpoint}", "target": str(output)}, {"name": "k", "target": "t"}]
holder = Incarnation("orders-1.00000001", "orders-1", IncarnationState.HOLDER, tuple(queries))
state: dict[str, Any] = {"holds": False, "holder": holder}
guard = GuardedFiles("orders", lambda: state["holds"], lambda: state["holder"])
guard.install([*queries, {"name": "late", "checkpoint": str(late)}])


def by_descriptor() -> None:
    folder = os.open(checkpoint, os.O_RDONLY)
    try:
        os.unlink("metadata", dir_fd=folder)
    finally:
        os.close(folder)


def opened(path: Any, mode: str) -> Callable[[], None]:
    return lambda: open(path, mode).close()


def in_own_thread() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            (checkpoint / "commits" / ".anew").touch()
            (checkpoint / "commits" / ".anew").unlink()
        except StreamError as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="airflow-stream-work")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def rmtree_later(path: Path) -> None:
    path.mkdir()
    shutil.rmtree(path)


calls: dict[str, Callable[[], Any]] = {
    "rmtree": lambda: shutil.rmtree(checkpoint),
    "rmtree, errors ignored": lambda: shutil.rmtree(str(checkpoint), ignore_errors=True),
    "rmtree above": lambda: shutil.rmtree(root / "checkpoints"),
    "rmtree by dots": lambda: shutil.rmtree(f"{root}/mine/../checkpoints/../checkpoints/lines"),
    "rmtree of a late query": lambda: shutil.rmtree(late),
    "remove": lambda: os.remove(checkpoint / "metadata"),
    "remove as bytes": lambda: os.remove(os.fsencode(checkpoint / "metadata")),
    "remove behind a link": lambda: os.remove(root / "link" / "metadata"),
    "remove by descriptor": by_descriptor,
    "unlink": (checkpoint / "metadata").unlink,
    "rmdir": lambda: (checkpoint / "commits").rmdir(),
    "rename away": lambda: checkpoint.rename(root / "away"),
    "rename above": lambda: os.rename(root / "checkpoints", root / "away"),
    "replace": lambda: os.replace(root / "mine", checkpoint / "metadata"),
    "write": opened(checkpoint / "metadata", "w"),
    "append": opened(str(output / "part-0.json"), "a"),
    "update": opened(os.fsencode(output / "part-0.json"), "r+b"),
    "write_text": lambda: (output / "new.json").write_text("x"),
    "truncate": lambda: os.truncate(output / "part-0.json", 0),
    "move": lambda: shutil.move(str(output), str(root / "away")),
    "link": lambda: os.link(root / "mine", output / "linked"),
    "symlink": lambda: os.symlink(root / "mine", output / "linked"),
    "read": lambda: (checkpoint / "metadata").read_text(),
    "make": lambda: (root / "lines").mkdir(exist_ok=True),
    "beside": lambda: (root / "checkpoints" / "lines.owner").unlink(),
    "same beginning": lambda: shutil.rmtree(root / "checkpoints" / "lines.old"),
    "elsewhere": lambda: (root / "mine").write_text("y"),
    "own thread": in_own_thread,
}


def become(call: Callable[[], Any]) -> str:
    try:
        call()
    except StreamError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - what the call itself has failed with
        return f"{type(error).__name__}: {error}"
    return ""


found = {name: become(call) for name, call in calls.items()}
kept = [(checkpoint / "metadata").read_text(), (output / "part-0.json").read_text()]

# Another driver takes over, with another checkpoint; then this one.
other = {"name": "more", "checkpoint": str(root / "more")}
state["holder"] = Incarnation("orders-2.00000002", "orders-2", IncarnationState.HOLDER, (other,))
found["next holder"] = become(lambda: rmtree_later(root / "more"))
state["holds"] = True
found["this one holds"] = become(lambda: rmtree_later(output / "old"))
print(json.dumps({"found": found, "kept": kept}))

"""What a runtime of any version reads of control logs: runtime_process.py ZIP CONTROL_URL… prints a JSON object.

Only the zip and the standard library are imported: what else this repository has is of another version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

# The ways in which a driver may know itself when it decides.
VIEWS: tuple[dict[str, Any], ...] = (
    *({}, {"rehearsed": True}, {"released_for": 60.0}),
    *({"running": True}, {"running": True, "peer_moved": True}, {"running": True, "terminating": True}),
)


def plain(found: Any) -> Any:
    """Return a value as JSON has it; of a record all that it says."""
    if isinstance(found, Enum):
        return found.value
    if is_dataclass(found):
        return {field.name: plain(getattr(found, field.name)) for field in fields(found)}
    if isinstance(found, Mapping):
        return {str(key): plain(each) for key, each in found.items()}
    return [plain(each) for each in found] if isinstance(found, (list, tuple)) else found


def report(url: str) -> dict[str, Any]:
    """Return, after each record, the state in short, what each driver would do, and which rule each record breaks.

    At the end the state as a whole, as it is saved, and the heartbeats.
    """
    from airflow_stream_provider.control import ControlLog, FilesRoot
    from airflow_stream_provider.lifecycle.driver_decision import DriverView, decide
    from airflow_stream_provider.lifecycle.errors import RuleBroken
    from airflow_stream_provider.lifecycle.fold import fold
    from airflow_stream_provider.lifecycle.rules import check
    from airflow_stream_provider.lifecycle.saved_state import dump
    from airflow_stream_provider.lifecycle.state import StreamState

    def broken(state: Any, record: Any) -> str:
        try:
            check(state, record)
        except RuleBroken as error:
            return str(error.fields["rule"])
        return ""

    log = ControlLog(FilesRoot(url).store("orders"), "orders")
    records = log.records()
    drivers = sorted({str(each["incarnation"]) for each in records if each.get("incarnation")})
    state, after = StreamState(), []
    for record in records:
        state = fold([record], state)
        stage = state.open_request.stage.value if state.open_request else None
        does = [[decide(state, DriverView(name, **view)).value for view in VIEWS] for name in drivers]
        rules = [broken(state, each) for each in records]
        after.append([state.phase.value, state.holder, state.epoch, stage, state.illegal_count, does, rules])
    beats = plain(log.heartbeats())
    return {"after": after, "state": plain(log.refresh()), "saved": dump(state).decode(), "heartbeats": beats}


def main(archive: str, *urls: str) -> None:
    sys.path.insert(0, archive)
    import airflow_stream_provider

    assert str(airflow_stream_provider.__file__).startswith(archive), airflow_stream_provider.__file__
    print(json.dumps({url: report(url) for url in urls}))


if __name__ == "__main__":
    main(*sys.argv[1:])

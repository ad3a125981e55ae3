"""Who may be told: what is imported by name, and what is refused."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.monitoring.recipients import (
    ImportedRecipient,
    recipient,
    recipients_of,
    takes_alerts,
)
from airflow_stream_provider.spec.stream import StreamSpec

HERE = __name__


class Letter(BaseNotifier):
    def __init__(self, text: str) -> None:
        super().__init__()
        if text == "unlucky":
            raise OSError(f"nobody to be reached with {text}")
        if text == "odd":
            raise TypeError(f"{text} is of a kind that is not accepted")
        self.text = text


class Fake:
    """Says that it takes alerts, and is no function."""

    takes_alerts = True


@takes_alerts
def call(alert: Any, loudly: bool = False) -> str:
    return f"{alert} {loudly}"


def unmarked(alert: Any) -> None:
    raise AssertionError("never called")


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("no_such.thing", {}),
        ("json.no_such_function", {}),
        ("json.__doc__", {}),
        (f"{HERE}.nothing", {}),
        (f"{HERE}.HERE", {}),
        (f"{HERE}.Letter", {"colour": "red"}),
        (f"{HERE}.Letter", {"text": "unlucky"}),
        (f"{HERE}.Letter", {}),
        (f"{HERE}.Letter", {"text": "odd"}),
        (f"{HERE}.call", {"colour": "unlucky"}),
        # A YAML file is not code: what may be called says so itself.
        ("os.system", {}),
        ("subprocess.run", {"shell": True}),
        ("subprocess.Popen", {}),
        ("builtins.exec", {}),
        (f"{HERE}.unmarked", {}),
        (f"{HERE}.Fake", {}),
    ],
)
def test_what_cannot_tell_anybody_is_refused(path: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=f"`notify` names {path}") as found:
        recipient(path, arguments)
    assert "unlucky" not in str(found.value)
    assert "odd" not in str(found.value)


def test_a_notifier_is_made_and_a_marked_function_gets_its_arguments() -> None:
    assert recipient(f"{HERE}.Letter", {"text": "x"}).text == "x"
    assert recipient(f"{HERE}.call", {"loudly": True})("fire") == "fire True"


def test_equal_recipients_are_one_whatever_their_arguments_are() -> None:
    odd: list[Any] = [{1: "a", "b": "c"}, {True: "a", "b": date(2026, 1, 1)}, {date(2026, 1, 1): 1, None: [2]}]
    names = [ImportedRecipient("a.b", {"extra": each}).name for each in odd]
    assert len(set(names)) == 3
    assert names[0] == ImportedRecipient("a.b", {"extra": {"b": "c", 1: "a"}}).name
    assert names[0] != ImportedRecipient("a.b", {"extra": {"b": "c", "1": "a"}}).name


def test_whom_several_streams_name_is_told_once() -> None:
    fields = {"application": "a.py", "version": "1", "cluster": "c", "control": "file:///d"}
    notify = [{"call": "a.b", "arguments": {"who": who}} for who in ("anna", "bob")]
    streams = [
        StreamSpec.model_validate({**fields, "name": "a", "notify": notify}),
        StreamSpec.model_validate({**fields, "name": "b", "notify": notify[1:]}),
    ]
    both = recipients_of(streams)
    assert len(both) == 3
    assert recipients_of(streams[1:]).keys() < both.keys(), "a name does not depend on who else is told"
    assert not any("bob" in name for name in both)

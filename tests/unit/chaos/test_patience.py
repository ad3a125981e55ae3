from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from chaos import patience
from chaos.patience import answered


def test_what_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "POLL_SECONDS", 0.0)
    found = iter([OSError("frozen"), ControlUnavailable("away"), 7])

    def look() -> object:
        if isinstance(each := next(found), Exception):
            raise each
        return each

    assert answered(look) == 7


def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ANSWER_SECONDS", -1.0)

    def look() -> None:
        raise OSError("frozen")

    with pytest.raises(OSError, match="frozen"):
        answered(look)

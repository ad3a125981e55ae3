"""How the demo ends whose story goes wrong."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import demo.__main__ as main_module
from demo.display import Display
from demo.environment import DemoEnvironment
from devstack.errors import StackError


@pytest.mark.parametrize("keep", [True, False])
def test_a_story_that_fails_says_where_the_logs_are_and_keeps_what_is_to_be_kept(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by a new user: everything was gone, and "Read the logs of the run in Airflow" was the advice."""
    done: list[str] = []

    @contextlib.contextmanager
    def stack(*given: Any) -> Iterator[Any]:
        yield SimpleNamespace(
            airflow=SimpleNamespace(dags_folder=tmp_path, api=None), cluster=SimpleNamespace(connection="")
        )
        done.append("stopped")

    def tell(story: Any, started: float) -> None:
        raise StackError("The run ended as failed.", next_step="Read the logs of the run.")

    monkeypatch.setattr(main_module, "_local", stack)
    monkeypatch.setattr(DemoEnvironment, "at", lambda *given: None)
    monkeypatch.setattr(main_module, "Story", lambda *given: SimpleNamespace(run=lambda started: tell(None, started)))
    monkeypatch.setattr(Display, "watch", lambda *given: None)
    monkeypatch.setattr(main_module, "_wait_for_ctrl_c", lambda *given: done.append("waited"))
    monkeypatch.setattr(signal, "signal", lambda *given: None)
    monkeypatch.setattr(sys, "argv", ["demo", "--report", str(tmp_path / "report"), *["--keep"] * keep])
    assert main_module.main() == 1
    said = "".join(capsys.readouterr().out.split())
    assert "StackError:Therunendedasfailed." in said
    assert f"{tmp_path}/report/stack.".replace(" ", "") in said
    assert done == (["waited", "stopped"] if keep else ["stopped"])

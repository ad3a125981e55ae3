"""When a stream that has another control root now is told, and what settles it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.operators import moved_streams
from airflow_stream_provider.operators.moved_streams import moved, unsettled
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.story import RUNNING, STARTED, write
from tests.support.watch_task import SPEC, Airflow


def spec(name: str, control: str) -> StreamSpec:
    fields = {"application": "a.py", "version": "1", "cluster": "c"}
    return StreamSpec.model_validate({**fields, "name": name, "control": control})


@pytest.mark.parametrize(
    ("declared", "before", "found"),
    [
        ("file:///new", {}, {}),
        ("file:///old", {}, {"a": "file:///old"}),
        ("file:///new", {"a": "file:///old"}, {"a": "file:///old"}),
        ("file:///old", {"a": "file:///new"}, {}),
        (None, {"gone": "file:///old"}, {}),
    ],
)
def test_a_stream_has_moved_while_its_control_is_another(
    declared: str | None, before: dict[str, str], found: dict[str, str]
) -> None:
    fields = {"name": "a"} if declared is None else {"name": "a", "control": declared}
    assert moved([spec("a", "file:///new")], [fields], before) == found


@pytest.fixture
def roots(tmp_path: Path) -> tuple[str, str]:
    old, new = (f"file://{tmp_path}/{name}" for name in ("old", "new"))
    make_root(old)
    make_root(new)
    StreamHook("a", old, "c").create()
    return old, new


def test_a_stream_that_was_never_held_or_whose_folder_is_gone_may_be_left(roots: tuple[str, str]) -> None:
    old, new = roots
    specs = {"a": spec("a", new), "b": spec("b", new)}
    assert unsettled({"a": old, "b": old}, specs) == {}


@pytest.mark.parametrize("phase", [StreamPhase.RUNNING, StreamPhase.DOWN, StreamPhase.FAILED, StreamPhase.STOPPED])
def test_one_that_runs_is_told_until_it_is_stopped_or_held_again(
    roots: tuple[str, str], phase: StreamPhase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamState, "phase", phase)
    old, new = roots
    specs = {"a": spec("a", new)}
    if phase is StreamPhase.STOPPED:
        assert unsettled({"a": old}, specs) == {}
        return
    says = unsettled({"a": old}, specs)["a"]
    assert new in says
    assert old in says
    hook = StreamHook("a", new, "c")
    hook.create()
    write(hook.control_log, *STARTED)
    assert "a" in unsettled({"a": old}, specs), "a driver that the checkpoint refuses"
    write(hook.control_log, *RUNNING[len(STARTED) :])
    assert unsettled({"a": old}, specs) == {}


def test_what_cannot_be_read_is_not_settled(roots: tuple[str, str], tmp_path: Path) -> None:
    old, new = roots
    (tmp_path / "old" / ".control-root").unlink()
    assert list(unsettled({"a": old}, {"a": spec("a", new)})) == ["a"]
    assert moved_streams.unsettled({}, {}) == {}


def test_a_stream_that_moves_though_it_runs_is_told_until_that_is_settled(airflow: Airflow, tmp_path: Path) -> None:
    controls = {name: f"file://{tmp_path}/{name}" for name in ("a", "b")}
    for control in controls.values():
        make_root(control)

    def look(control: str) -> str:
        text = SPEC.format(name="orders").replace("file:///d", controls[control])
        (airflow.folder / "orders.yaml").write_text(text)
        airflow.look()
        [orders] = [each for each in airflow.asked if each.spec.name == "orders"]
        return orders.problem

    (tmp_path / "a" / "orders").mkdir()
    assert look("a") == ""
    (tmp_path / "a" / "orders" / "log").mkdir()
    (tmp_path / "a" / "orders" / "log" / f"{1:020}.json").write_text("[")
    for _ in range(2):
        assert "it was last watched under file://" in look("b")
    assert look("a") == ""
    assert look("b")
    hook = StreamHook("orders", controls["b"], "c")
    hook.create()
    write(hook.control_log, *RUNNING)
    assert look("b") == ""
    assert airflow.pushed["memory"]["moved"] == {}


def test_a_control_root_whose_connection_may_not_be_read_is_not_settled(
    roots: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(url: str) -> Any:
        if url.startswith("kafka://"):
            raise AirflowSecretsBackendAccessDenied("no")
        return control_root(url)

    for module in ("monitoring.root_reads", "hooks.stream"):
        monkeypatch.setattr(f"airflow_stream_provider.{module}.control_root", denied)
    old, new = roots
    specs = {"a": spec("a", new), "b": spec("b", new)}
    assert unsettled({"a": old, "b": "kafka://denied/streams"}, specs).keys() == {"b"}

"""When a stream that has another control root now is told, and what settles it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.operators import watched_files
from airflow_stream_provider.operators.watched_files import given_up, moved, unsettled
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.story import RUNNING, STARTED, STOPPED, write
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
    assert watched_files.unsettled({}, {}) == {}


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

    for module in ("monitoring.folder_reading", "hooks.stream"):
        monkeypatch.setattr(f"airflow_stream_provider.{module}.control_root", denied)
    old, new = roots
    specs = {"a": spec("a", new), "b": spec("b", new)}
    assert unsettled({"a": old, "b": "kafka://denied/streams"}, specs).keys() == {"b"}


@pytest.mark.parametrize("how", ["lost", "renamed"])
def test_a_stream_that_runs_and_whose_yaml_is_gone_is_watched_until_it_is_stopped(
    airflow: Airflow, roots: tuple[str, str], how: str
) -> None:
    def declare(name: str, file: str) -> None:
        (airflow.folder / file).write_text(SPEC.format(name=name).replace("file:///d", roots[0]))

    for name in ("a", "b"):
        declare(name, f"{name}.yaml")
    log = StreamHook("a", roots[0], "c").control_log
    write(log, *RUNNING)
    airflow.look()
    (airflow.folder / "b.yaml").unlink()  # was never deployed
    if how == "lost":
        (airflow.folder / "a.yaml").unlink()
    else:
        declare("aa", "a.yaml")
    for number in range(3):
        airflow.look()
        assert [each.problem for each in airflow.asked if each.spec.name == "a"] != [""]
        assert [each.last for each in airflow.asked if each.spec.name == "b"] == [True] * (number == 0)
    write(log, *STOPPED[len(RUNNING) :])
    airflow.look()
    assert [(each.problem, each.last) for each in airflow.asked if each.spec.name == "a"] == [("", True)]
    airflow.look()
    assert "a" not in airflow.names
    assert not any("/a" in key or (key == "a.yaml" and how == "lost") for key in airflow.xcom["declared"])


def test_a_stream_whose_yaml_is_in_another_folder_now_is_left_to_the_watch_of_that_one(roots: tuple[str, str]) -> None:
    hook = StreamHook("a", roots[0], "c")
    write(hook.control_log, *RUNNING)
    left = [spec("a", roots[0])]
    for by, given in [("", set()), ("x__watch", set()), ("other__watch", {"a"})]:
        samples.append(hook.samples, LagSample(1.0 + len(by), by=by))
        assert given_up(left, "x__watch") == given


def test_a_stream_whose_log_was_removed_with_its_yaml_is_given_up_once_people_know(roots: tuple[str, str]) -> None:
    left = [spec("a", roots[0])]
    StreamHook("a", roots[0], "c").create()
    root = control_root(roots[0])
    root.note("a")
    shutil.rmtree(Path(roots[0].removeprefix("file://")) / "a")
    assert given_up(left, "x__watch") == set()
    for told in ("a", roots[0]):
        assert given_up(left, "x__watch", {told}) == {"a"}
    assert given_up([spec("b", roots[0])], "x__watch") == {"b"}, "it was never there"


def test_a_stream_whose_log_cannot_be_read_is_not_given_up(roots: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "old" / ".control-root").unlink()
    assert given_up([spec("a", roots[0])], "x__watch") == set()

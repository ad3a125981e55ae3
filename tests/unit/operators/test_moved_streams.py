"""How long a stream is watched that no file describes any more, or none where it is."""

from __future__ import annotations

import shutil
from collections.abc import Collection
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
from airflow_stream_provider.operators.watch_look import given_up
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.story import RUNNING, STARTED, STOPPED, write
from tests.support.watch_task import SPEC, Airflow


def spec(name: str, control: str) -> StreamSpec:
    fields = {"application": "a.py", "version": "1", "cluster": "c"}
    return StreamSpec.model_validate({**fields, "name": name, "control": control})


@pytest.fixture
def roots(tmp_path: Path) -> tuple[str, str]:
    old, new = (f"file://{tmp_path}/{name}" for name in ("old", "new"))
    make_root(old)
    make_root(new)
    StreamHook("a", old, "c").create()
    return old, new


def left(old: StreamSpec, now: StreamSpec | None = None, told: Collection[str] = ()) -> bool:
    """Whether a stream that no file describes any more where it is need not be watched any more."""
    return given_up([old], {} if now is None else {now.name: now}, "x__watch", told) == {old.name}


def test_a_stream_that_has_moved_and_was_never_held_or_whose_folder_is_gone_may_be_left(
    roots: tuple[str, str],
) -> None:
    old, new = roots
    for name in ("a", "b"):
        assert left(spec(name, old), spec(name, new))


@pytest.mark.parametrize("phase", [StreamPhase.RUNNING, StreamPhase.DOWN, StreamPhase.FAILED, StreamPhase.STOPPED])
def test_one_that_has_moved_is_watched_where_it_was_until_it_is_stopped_or_held_again(
    roots: tuple[str, str], phase: StreamPhase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamState, "phase", phase)
    old, new = (spec("a", control) for control in roots)
    assert left(old, new) is (phase is StreamPhase.STOPPED)
    if phase is StreamPhase.STOPPED:
        return
    hook = StreamHook("a", new.control, "c")
    hook.create()
    write(hook.control_log, *STARTED)
    assert not left(old, new), "a driver that the checkpoint refuses"
    write(hook.control_log, *RUNNING[len(STARTED) :])
    assert left(old, new)


def test_a_stream_that_moves_though_it_runs_is_watched_where_it_was_until_that_is_settled(
    airflow: Airflow, roots: tuple[str, str]
) -> None:
    old, new = roots
    for control in roots:
        StreamHook("orders", control, "c").create()
    write(StreamHook("orders", old, "c").control_log, *RUNNING)

    def look(control: str) -> tuple[str, str]:
        text = SPEC.format(name="orders").replace("file:///d", control)
        (airflow.folder / "orders.yaml").write_text(text)
        airflow.revive = ("orders",)
        triggers = airflow.look()
        [orders] = [each for each in airflow.asked if each.spec.name == "orders"]
        assert bool(triggers) is not bool(orders.problem), "its DAG would look under the new one"
        return orders.spec.control, orders.problem

    assert look(old) == (old, "")
    for _ in range(2):
        control, problem = look(new)
        assert control == old
        assert f"`control` is {new} now, where no driver has ever held orders" in problem
    assert look(old) == (old, "")
    assert look(new)[1]
    write(StreamHook("orders", new, "c").control_log, *RUNNING)
    assert look(new) == (new, "")
    assert look(new) == (new, "")


def test_a_control_root_whose_connection_may_not_be_read_is_not_settled(
    roots: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(url: str) -> Any:
        raise AirflowSecretsBackendAccessDenied("no")

    monkeypatch.setattr("airflow_stream_provider.monitoring.folder_reading.control_root", denied)
    assert not left(spec("b", roots[0]), spec("b", roots[1]))


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
    for by, given in [("", False), ("x__watch", False), ("other__watch", True)]:
        samples.append(hook.samples, LagSample(1.0 + len(by), by=by))
        assert left(spec("a", roots[0])) is given


def test_a_stream_whose_log_was_removed_with_its_yaml_is_given_up_once_people_know(roots: tuple[str, str]) -> None:
    StreamHook("a", roots[0], "c").create()
    root = control_root(roots[0])
    root.note("a")
    shutil.rmtree(Path(roots[0].removeprefix("file://")) / "a")
    assert not left(spec("a", roots[0]))
    for told in ("a", roots[0]):
        assert left(spec("a", roots[0]), told={told})
    assert left(spec("b", roots[0])), "it was never there"


def test_a_stream_whose_log_cannot_be_read_is_not_given_up(roots: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "old" / ".control-root").unlink()
    assert not left(spec("a", roots[0]))

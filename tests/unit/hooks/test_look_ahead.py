"""A look ahead on a real control log."""

from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.look_ahead import look_ahead, wanted_of
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import load_spec
from tests.support.story import OLD, RUNNING, write

YAML = 'name: orders\napplication: {}\nversion: "2"\ncluster: here\ncontrol: file:///d\nupgrade: {{approval: true}}\n'


def requested(tmp_path: Path, application: str) -> RequestedRelease:
    (tmp_path / "streams").mkdir(exist_ok=True)
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "streams" / "orders.yaml").write_text(YAML.format(application))
    return RequestedRelease.of(load_spec(tmp_path / "streams" / "orders.yaml"))


def test_it_reads_and_writes_nothing(hook: StreamHook) -> None:
    write(hook.control_log, *RUNNING)
    found = look_ahead(hook, Operation.STOP)
    assert found.held is not None
    assert (found.held.driver, found.parts) == (OLD, (Operation.STOP,))
    assert look_ahead(hook, Operation.FENCE, since=99.0).done
    assert "by the word of Ada" in look_ahead(hook, Operation.FENCE, confirmed_by="Ada").will[0]
    assert len(hook.control_log.records()) == len(RUNNING)


def test_a_stream_that_was_never_deployed_is_empty(tmp_path: Path) -> None:
    make_root(f"file://{tmp_path}")
    hook = StreamHook("orders", f"file://{tmp_path}", "here")
    found = look_ahead(hook, Operation.START, requested(tmp_path, "a.py"))
    assert (found.phase, found.held) == ("empty", None)
    assert "wants a person's approval" in found.refused
    assert not hook.exists()


def test_what_a_start_would_bring_up_has_the_hash_that_it_would_be_published_with(tmp_path: Path) -> None:
    release = requested(tmp_path, "a.py")
    found = wanted_of(release)
    assert (found.version, found.hash, found.approval, found.problem) == ("2", release.make()[0].hash, True, "")
    assert "There is no file" in wanted_of(requested(tmp_path, "gone.py")).problem

"""The page by its own application; Airflow's users, database and server are in tests/integration/plugin."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI, HTTPException
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from airflow_stream_provider.control import ControlLog, bounded
from airflow_stream_provider.hooks.control import close_roots, control_root
from airflow_stream_provider.plugin import app as page
from airflow_stream_provider.plugin import looks
from airflow_stream_provider.plugin.looks import OpenStream, Visible
from airflow_stream_provider.spec.shown import Shown
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import new_log
from tests.support.more_time import in_time
from tests.support.story import HANDED_OVER, NEW, write


def spec_of(name: str, control: str) -> StreamSpec:
    fields = {"name": name, "application": "a.py", "version": "1", "cluster": "c", "control": control}
    return StreamSpec.model_validate(fields)


def visible(name: str, control: str, problem: str = "") -> Visible:
    return Visible(f"{name}__operate", Shown(name, spec_of(name, control), problem), ("streams__watch",))


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    found = new_log(f"file://{tmp_path}")
    write(found, *HANDED_OVER)
    return found


@pytest.fixture
def shown(tmp_path: Path, log: ControlLog) -> list[Visible]:
    """What the user may see."""
    return [visible("orders", f"file://{tmp_path}")]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, shown: list[Visible]) -> Iterator[TestClient]:
    monkeypatch.setattr(page, "visible_streams", lambda user, form=None: shown)
    app = page.make_app()
    app.dependency_overrides[get_user] = lambda: SimpleNamespace(name="anna")
    with TestClient(app) as found:
        yield found


def text_of(answered: str) -> str:
    """Return what a person reads."""
    return html.unescape(re.sub(r"<[^>]*>", "", answered))


def test_the_list_says_of_each_stream_who_holds_and_what_happened_last(client: TestClient) -> None:
    said = client.get("/")
    assert said.status_code == 200
    text = text_of(said.text)
    assert "orders" in text
    assert NEW in text
    assert "handed over: a person wants it" in text
    assert 'href="stream?dag_id=orders__operate"' in said.text


def test_a_stream_says_what_a_roll_back_would_do_in_the_words_of_the_command(
    client: TestClient, shown: list[Visible]
) -> None:
    said = client.get("/stream", params={"dag_id": "orders__operate"})
    assert said.status_code == 200
    spec = shown[0].stream.spec
    assert spec is not None
    assert "\n".join(OpenStream(spec).answer().lines) in text_of(said.text)
    # Another folder may have a stream of this name, which the command would then roll back.
    assert "--folder" in text_of(said.text)
    for dag in ("orders__operate", "orders__upgrade", "streams__watch"):
        assert f'href="../dags/{dag}"' in said.text


def test_for_one_stream_airflow_is_asked_for_one_dag(
    client: TestClient, shown: list[Visible], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be a thousand, each of which is some 25 kB of JSON in the database."""
    asked: list[str | None] = []
    monkeypatch.setattr(page, "visible_streams", lambda user, form=None: asked.append(form) or shown)
    client.get("/stream", params={"dag_id": "orders__operate"})
    client.get("/")
    assert asked == ["orders__operate", None]


def test_each_answer_forbids_scripts_and_frames_and_is_kept_nowhere(client: TestClient) -> None:
    for path in ("/", "/stream?dag_id=orders__operate", "/stream?dag_id=none", "/page.css"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


@pytest.mark.parametrize("dag_id", ["other__operate", "orders", "../orders__operate", "", "orders__operate\x00"])
def test_a_stream_that_this_user_may_not_see_is_one_that_is_not_there(client: TestClient, dag_id: str) -> None:
    said = client.get("/stream", params={"dag_id": dag_id})
    assert said.status_code == 404
    assert "There is no such stream, or you may not read its DAG." in said.text


def test_without_a_user_nothing_is_shown_and_nobody_looks(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise HTTPException(401)

    monkeypatch.setattr(page, "visible_streams", lambda *asked: pytest.fail("nobody was asked who it is"))
    assert isinstance(client.app, FastAPI)
    client.app.dependency_overrides[get_user] = refuse
    for path in ("/", "/stream?dag_id=orders__operate", "/stream", "/page.css"):
        assert client.get(path).status_code == 401


@pytest.mark.parametrize("path", ["/stream/", "/page.css/", "/other"])
def test_nobody_is_sent_elsewhere(client: TestClient, path: str) -> None:
    said = client.get(path, headers={"host": "evil.example"}, follow_redirects=False)
    assert said.status_code == 404
    assert "location" not in said.headers


def test_every_route_asks_for_the_user_and_only_reads() -> None:
    app = page.make_app()
    for route in app.routes:
        assert getattr(route, "methods", None) == {"GET"}, route
        assert isinstance(route, APIRoute)
        needs, asked = [route.dependant], list[Any]()
        while needs:
            need = needs.pop()
            asked.append(need.call)
            needs += need.dependencies
        assert get_user in asked, route


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nothing_can_be_changed(client: TestClient, method: str) -> None:
    for path in ("/", "/stream?dag_id=orders__operate"):
        assert getattr(client, method)(path).status_code == 405


def test_what_cannot_be_reached_is_a_sentence_and_hides_no_other_stream(
    client: TestClient, shown: list[Visible], tmp_path: Path
) -> None:
    shown.append(visible("away", f"file://{tmp_path}/gone"))
    shown.append(Visible("broken__operate", Shown("broken", None, "Line 3: this is <no> YAML.")))
    text = text_of(client.get("/").text)
    assert NEW in text
    assert f"{tmp_path}/gone" in text
    assert "Line 3: this is <no> YAML." in text
    text = text_of(client.get("/stream?dag_id=away__operate").text)
    assert "That is not known." in text
    assert f"{tmp_path}/gone" in text
    assert "It cannot be looked at" in text_of(client.get("/stream?dag_id=broken__operate").text)


def test_a_store_that_hangs_is_a_sentence_and_others_are_shown_meanwhile(
    client: TestClient, shown: list[Visible], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.append(visible("hangs", f"file://{tmp_path}/dead"))
    ended, row = threading.Event(), OpenStream.row

    def read(self: OpenStream) -> object:
        if self.spec.name == "hangs":
            ended.wait(600)
        return row(self)

    def others_are_shown(seconds: float) -> bool:
        monkeypatch.setattr(page, "LOG_SECONDS", seconds)
        text = text_of(client.get("/").text)
        return NEW in text and "It did not answer the API server within" in text

    monkeypatch.setattr(OpenStream, "row", read)
    try:
        in_time(others_are_shown)
    finally:
        ended.set()


def test_answers_that_wait_for_kafka_keep_nobody_from_reading_the_control_logs_beside_them(
    client: TestClient, shown: list[Visible], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown += [visible(f"other-{number}", f"file://{tmp_path}") for number in range(bounded.OF_ONE_PLACE)]
    ended = threading.Event()
    monkeypatch.setattr(page, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(page, "LOG_SECONDS", 60.0)
    # Ten times as long as a log is waited for: one that has to wait for an answer must not be read in time.
    monkeypatch.setattr(OpenStream, "answer", lambda self: ended.wait(600))
    try:
        for each in shown[1:]:
            assert "That is not known." in client.get("/stream", params={"dag_id": each.form}).text
        text = text_of(client.get("/").text)
        assert NEW in text
        assert "did not answer" not in text
    finally:
        ended.set()


def test_a_connection_that_has_changed_counts_from_the_next_page_on(
    client: TestClient, shown: list[Visible], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server lives for months."""
    fields = {"name": "far", "application": "a.py", "version": "1", "cluster": "c", "storage": "file:///nowhere"}
    spec = StreamSpec.model_validate({**fields, "control": "kafka://far_away/streams"})
    shown[:] = [Visible("far__operate", Shown("far", spec))]
    monkeypatch.setattr(page, "LOG_SECONDS", 60.0)
    try:
        for port in (1, 2):
            extra = {"bootstrap.servers": f"127.0.0.1:{port}"}
            monkeypatch.setenv("AIRFLOW_CONN_FAR_AWAY", json.dumps({"conn_type": "kafka", "extra": extra}))
            assert client.get("/").status_code == 200
            assert control_root(spec.control).driver_arguments()[1] == f"127.0.0.1:{port}"
    finally:
        close_roots()


def test_an_error_that_nobody_thought_of_is_logged_and_its_text_shown_to_nobody(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*asked: object, **more: object) -> None:
        raise RuntimeError("password=hunter2")

    for name, path in (("look_ahead", "/stream?dag_id=orders__operate"), ("read_status", "/")):
        with monkeypatch.context() as patch:
            patch.setattr(looks, name, fail)
            text = client.get(path).text
        assert "RuntimeError" in text
        assert "hunter2" not in text
        assert "hunter2" in caplog.text
        caplog.clear()

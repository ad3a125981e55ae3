"""What the page in Airflow's UI asks its server for, from real control logs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi.testclient import TestClient

from airflow_stream_provider.control import ControlLog, bounded
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryHealth, QueryProgress
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.plugin import app as page
from airflow_stream_provider.plugin import board
from airflow_stream_provider.plugin.board import Board
from airflow_stream_provider.plugin.looks import OpenStream, Visible
from airflow_stream_provider.spec.shown import Shown
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.drivers import wait_for
from tests.support.control_root import new_log
from tests.support.snapshots import ASKED, RUNNING, UPGRADED
from tests.support.story import NEW, OLD, write


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    return new_log(f"file://{tmp_path}")


@pytest.fixture
def shown(tmp_path: Path, log: ControlLog) -> list[Visible]:
    return [visible("orders", tmp_path)]


def visible(name: str, folder: Path) -> Visible:
    fields = {"name": name, "application": "a.py", "version": "1", "cluster": "c", "control": f"file://{folder}"}
    return Visible(f"{name}__operate", Shown(name, StreamSpec.model_validate(fields)))


@pytest.fixture
def user() -> SimpleNamespace:
    return SimpleNamespace(name="anna")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, shown: list[Visible], user: SimpleNamespace) -> Iterator[TestClient]:
    monkeypatch.setattr(page, "visible_streams", lambda user, form=None: shown)
    monkeypatch.setattr(page, "may_trigger", lambda user, form: user.name == "anna")
    monkeypatch.setattr(board, "EVERY_SECONDS", 0.05)
    app = page.make_app()
    app.dependency_overrides[get_user] = lambda: user
    with TestClient(app) as found:
        yield found


def asked(client: TestClient, what: str, **params: Any) -> Any:
    found = client.get(f"/api/{what}", params=params)
    assert found.status_code == 200, found.text
    return found.json()


def test_only_a_line_that_has_changed_is_sent_again(client: TestClient, log: ControlLog) -> None:
    write(log, *RUNNING)
    first = asked(client, "streams")
    (line,) = first["streams"]
    assert (line["id"], line["holder"], line["upgrade"]["what"]) == ("orders__operate", OLD, "started")
    again = asked(client, "streams", since=first["version"])
    assert (again["streams"], again["all"]) == ([], ["orders__operate"])
    write(log, *UPGRADED[len(RUNNING) :])

    def changed() -> Any:
        found = asked(client, "streams", since=first["version"])["streams"]
        return [each for each in found if each["holder"] == NEW]  # it may be read between two records

    (line,) = wait_for("the line that has changed", changed)
    assert (line["holder"], line["upgrade"]["what"]) == (NEW, "handed_over")
    assert asked(client, "streams", since="another-process.99")["streams"], "a version of another server is none"


def test_no_stream_is_shown_with_the_line_of_another(
    log: ControlLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read of two streams had to wait for its turn. One was left meanwhile for a third, which then had its line."""
    for each in (log, new_log(f"file://{tmp_path}", "parts"), new_log(f"file://{tmp_path}", "zones")):
        write(each, *RUNNING)
    first, left, third = (visible(name, tmp_path) for name in ("orders", "parts", "zones"))
    for name, seconds in (("EVERY", 0.5), ("READ", 0.3), ("FIRST", 0.1), ("LOOKED", 0.7)):
        monkeypatch.setattr(board, f"{name}_SECONDS", seconds)
    monkeypatch.setattr(board, "BUSY", 1.0)
    monkeypatch.setattr(bounded, "OF_ONE_PLACE", 1)
    ended = threading.Event()

    async def look() -> list[tuple[str, str]]:
        found, found_again = Board(), False
        turn = asyncio.create_task(found.reads.call(f"file://{tmp_path}", "another", lambda: ended.wait(600), 600.0))
        await found.rows([first, left], "")
        until, names = time.monotonic() + 2.0, list[tuple[str, str]]()
        while not found_again:
            if time.monotonic() > until:
                ended.set()
            lines = (await found.rows([first, third], ""))["streams"]
            names += [(each["id"], each["name"]) for each in lines]
            found_again = all(each["holder"] == OLD and not each["problem"] for each in lines)
            await asyncio.sleep(0.01)
        await turn
        return names

    assert set(asyncio.run(look())) == {("orders__operate", "orders"), ("zones__operate", "zones")}


def test_the_gaps_of_another_control_log_are_not_kept(log: ControlLog, tmp_path: Path) -> None:
    """They are known by the numbers of records: those of a stream that had moved were shown at its new log."""
    new_log(f"file://{tmp_path}/new")

    async def look() -> object:
        found, before = Board(), visible("orders", tmp_path)
        while found.latest(before, "gaps", lambda stream: {1: 2.0}, 10.0, 20.0) is None:
            await asyncio.sleep(0.01)
        return found.latest(visible("orders", tmp_path / "new"), "gaps", OpenStream.gaps, 10.0, 20.0)

    assert asyncio.run(look()) is None


def test_a_stream_is_told_with_its_drivers_and_what_goes_on(client: TestClient, log: ControlLog) -> None:
    write(log, *ASKED)
    health = QueryHealth("retrying", 90.0, 3, "OutOfMemoryError: no \x1b[31mheap")
    beat = Heartbeat(1, at=time.time(), ui_url="javascript:alert(1)", queries=(QueryProgress("q", health=health),))
    log.store.put_heartbeat(OLD, beat.to_json())
    found = asked(client, "stream", dag_id="orders__operate")
    assert {each["id"]: each["role"] for each in found["drivers"]} == {OLD: "holder", NEW: "standby"}
    assert found["drivers"][0]["ui"] == ""
    (query,) = found["queries"]
    assert (query["tone"], query["failures"]) == ("bad", 3)
    assert "\x1b" not in query["error"]
    assert [each["words"] for each in found["now"]] == ["wanted", "standby", "requested"]
    assert found["events"][0]["what"] == "asked"
    assert {each["verb"] for each in found["verbs"]} == set(Operation)


def test_a_query_of_a_silent_driver_is_not_called_running(client: TestClient, log: ControlLog) -> None:
    """Seen on the page: a driver that had been killed a minute before, and its queries in green."""
    write(log, *RUNNING)
    health = QueryHealth("running", 0.0, 0, "")
    beat = Heartbeat(1, at=time.time() - 3600.0, queries=(QueryProgress("q", health=health),))
    log.store.put_heartbeat(OLD, beat.to_json())
    (query,) = asked(client, "stream", dag_id="orders__operate")["queries"]
    assert (query["tone"], query["words"]) == ("unknown", "not known: its driver is silent")


def test_a_stream_that_cannot_be_read_has_all_its_fields_and_says_why(
    client: TestClient, log: ControlLog, tmp_path: Path
) -> None:
    """The page in Airflow's UI broke: it drew drivers that the answer did not have."""
    write(log, *RUNNING)
    known = asked(client, "stream", dag_id="orders__operate")
    tmp_path.rename(tmp_path.with_name("away"))

    def found_away() -> Any:
        found = asked(client, "stream", dag_id="orders__operate")  # for a second it is the answer before
        return found if found["problem"] else None

    away = wait_for("the problem", found_away)
    assert away.keys() == known.keys()
    assert (away["drivers"], away["events"]) == ([], [])


def test_who_may_not_trigger_the_form_is_offered_nothing(
    client: TestClient, log: ControlLog, user: SimpleNamespace
) -> None:
    write(log, *RUNNING)
    user.name = "bert"
    assert asked(client, "stream", dag_id="orders__operate")["verbs"] == []


def test_the_time_line_has_who_held_and_the_changes(client: TestClient, log: ControlLog) -> None:
    write(log, *UPGRADED)
    found = asked(client, "series", dag_id="orders__operate", seconds=0)
    assert [each["driver"] for each in found["bands"]] == [OLD, NEW]
    assert found["bands"][-1]["to"] is None
    assert "handed_over" in [each["what"] for each in found["marks"]]


def test_the_forecast_is_that_of_the_form_and_what_the_yaml_decides_is_left_to_the_run(
    client: TestClient, log: ControlLog
) -> None:
    write(log, *UPGRADED)
    back = asked(client, "forecast", dag_id="orders__operate", verb="roll-back")
    assert (back["word"], back["tone"]) == ("Yes.", "good")
    assert "YAML" in asked(client, "forecast", dag_id="orders__operate", verb="upgrade")["problem"]
    assert client.get("/api/forecast", params={"dag_id": "orders__operate", "verb": "rm"}).status_code == 404


@pytest.mark.parametrize("what", ["stream", "series", "forecast"])
def test_what_a_user_may_not_see_is_not_there(client: TestClient, what: str) -> None:
    found = client.get(f"/api/{what}", params={"dag_id": "other__operate", "verb": "stop"})
    assert found.status_code == 404
    assert found.json()["detail"].startswith("There is no such stream")


def test_a_dag_of_no_stream_has_no_story(
    client: TestClient, log: ControlLog, shown: list[Visible], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, *UPGRADED)
    assert asked(client, "story", dag_id="orders__upgrade")["stream"] == "orders__operate"
    monkeypatch.setattr(page, "visible_streams", lambda user, form=None: [])
    assert asked(client, "story", dag_id="etl")["stream"] is None

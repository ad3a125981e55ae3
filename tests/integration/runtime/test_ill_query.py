"""One of three queries of a real driver fails for ever: watch, status and page tell why, and the others go on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.cli.status import Code, status_of
from airflow_stream_provider.lifecycle.heartbeat import QueryHealth
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.planning.stream_health import ILL_SECONDS
from airflow_stream_provider.plugin.looks import Answer, OpenStream, Visible
from airflow_stream_provider.plugin.templates import render
from airflow_stream_provider.spec.shown import Shown
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support import watched_folder
from tests.support.hand_run import show
from tests.support.orders_files import Orders
from tests.support.watched_folder import RECEIVED, look_at

pytestmark = pytest.mark.system  # a minute has to pass

SCRIPT = Path(__file__).with_name("scripts") / "ill.py"
BAD = 40


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


class Watch:
    """The watch of the stream, whose YAML names no Kafka; a look whenever the test wants one."""

    def __init__(self, stream: HandRunStream) -> None:
        fields = {"name": "orders", "application": "a.py", "version": "1", "cluster": "c", "control": stream.url}
        notify = [{"call": f"{watched_folder.__name__}.receive"}]
        self.spec = StreamSpec.model_validate({**fields, "notify": notify})
        RECEIVED.clear()

    def look(self) -> list[Alert]:
        look_at(self.spec)
        return [alert for alert in RECEIVED.get("", []) if alert.kind == "query"]

    def page(self) -> str:
        shown = Visible("orders__operate", Shown("orders", self.spec, ""), ())
        stream = OpenStream(self.spec)
        said = {"problem": "", **stream.details()}
        answer = Answer("Yes.", ())
        return render("stream", now=time.time(), shown=shown, row=stream.row(), said=said, answer=answer)


def health(stream: HandRunStream, query: str) -> QueryHealth:
    beat = stream.log.heartbeat(str(stream.state.holder))
    found = beat.query(query) if beat else None
    return (found.health if found else None) or QueryHealth()


def test_one_of_three_queries_fails_for_ever(stream: HandRunStream, orders: Orders) -> None:
    """Found by a review: nobody was told. No symptom, status, page or alert looked at what the driver itself said."""
    (orders.root / "broken").touch()
    orders.write(BAD)
    driver = stream.deploy("orders-1", SCRIPT, str(orders.root), str(BAD))
    stream.hand_over(stream.standby("orders-1"))
    watch = Watch(stream)
    out = orders.root / "alerts"
    wait_for("the first orders of all three", lambda: orders.delivered().total() == BAD and list(out.glob("part-*")))
    orders.flow(1.0)
    wait_for("the query to fail", lambda: health(stream, "alerts").failures)
    assert watch.look() == [], "it may be cured"

    wait_for("it to fail for long", lambda: health(stream, "alerts").seconds >= ILL_SECONDS)
    (told,) = watch.look()
    found = health(stream, "alerts")
    assert found.state == "retrying"
    raised = re.search(r"ValueError: bad record \d+, password=\*\*\*", f"{found.error} {found.cause}")
    assert raised is not None
    assert found.batch is not None
    (read,) = found.ranges
    assert read.source.startswith("FileStreamSource[")
    assert (read.start, read.end) == (f'{{"logOffset":{found.batch - 1}}}', f'{{"logOffset":{found.batch}}}')
    status = status_of(watch.spec)
    assert status.code is Code.BAD
    assert (told.open, told.stream) == (True, "orders")
    for said in (told.text, status.problem, watch.page().replace("&#34;", '"')):
        assert "alerts" in said
        assert raised[0] in said
        assert str(found.batch) in said
        assert read.end in said
        assert "hunter2" not in said
    assert "Look: airflow streams status orders" in told.text

    assert driver.popen.poll() is None
    assert [health(stream, name).state for name in ("lines", "copies")] == ["running", "running"]
    orders.go_on("the orders of the others")
    assert watch.look() == [told], "once"

    (orders.root / "broken").unlink()
    wait_for("it to get on", lambda: health(stream, "alerts") == QueryHealth())
    assert [alert.open for alert in watch.look()] == [True, False]
    assert status_of(watch.spec).code is Code.WELL
    assert stream.records("failed") == []

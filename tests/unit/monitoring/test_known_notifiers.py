"""The notifiers of docs/examples/notify.yaml and orders_notify.py, of Airflow's providers: what their servers receive.

Slack's and PagerDuty's are no requirement of the tests: install apache-airflow-providers-slack and
apache-airflow-providers-pagerduty to run all of these.
"""

from __future__ import annotations

import importlib
import json
import runpy
import shutil
import socketserver
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.monitoring.delivery import Told, tell
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom, update_incidents
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.notifications.lag import LagNotifier
from airflow_stream_provider.spec.lag_target import lag_target
from airflow_stream_provider.spec.stream import load_spec
from tests.support.tasks import spec_in

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs" / "examples"
NOTIFY = yaml.safe_load((EXAMPLES / "notify.yaml").read_text())["notify"]
# An error as a script may raise it: it would ring every telephone of a channel, or be HTML.
TROUBLE = "No driver holds it: <!channel> a & b."


class Mailbox(socketserver.StreamRequestHandler):
    """Speaks as much SMTP as takes a mail."""

    received: list[bytes]

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line.split()[0].upper() if line.strip() else b""
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.received.append(b"".join(iter(self.rfile.readline, b".\r\n")))
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 yes\r\n")
            if word == b"QUIT":
                return


class Web(BaseHTTPRequestHandler):
    """Takes what is posted, and answers as Slack and PagerDuty do."""

    received: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.append({"path": self.path, **body})
        slack = not self.path.startswith("/v2/")
        answer = b"ok" if slack else json.dumps({"status": "success", "dedup_key": body.get("dedup_key")}).encode()
        self.send_response(200 if slack else 202)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, list[Any]]]:
    """Servers of all three that note what they receive, and the connections to them."""
    mails: list[bytes] = []
    posts: list[dict[str, Any]] = []
    mail = socketserver.ThreadingTCPServer(("127.0.0.1", 0), type("Own", (Mailbox,), {"received": mails}))
    web = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Web,), {"received": posts}))
    mail.daemon_threads = True
    for server in (mail, web):
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    address = f"http://127.0.0.1:{web.server_address[1]}"
    connections: dict[str, dict[str, Any]] = {
        "slack_default": {"conn_type": "slackwebhook", "password": f"{address}/services/T/B/x"},
        "pagerduty_events_default": {"conn_type": "pagerduty_events", "password": "r0utes"},
        "smtp_default": {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": mail.server_address[1],
            "extra": {"from_email": "streams@example.org", "disable_ssl": True, "disable_tls": True},
        },
    }
    for name, fields in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))
    try:
        pagerduty = importlib.import_module("pagerduty")
    except ImportError:
        pass
    else:
        monkeypatch.setattr(pagerduty.EventsApiV2Client, "default_base_url", address)
        # In place of its property, which takes HTTPS only.
        monkeypatch.setattr(pagerduty.EventsApiV2Client, "url", address)
    yield {"mails": mails, "posts": posts}
    for server in (mail, web):
        server.shutdown()
        server.server_close()


def opened_and_closed(folder: Path, number: int) -> str:
    """Tell the recipient of this number that a stream is down, and that it is well again; return the incident's id."""
    path = folder / "streams" / "orders.yaml"
    path.parent.mkdir()
    whole = yaml.safe_load((ROOT / "dags" / "streams" / "orders.yaml").read_text())
    path.write_text(yaml.safe_dump({**whole, "notify": [NOTIFY[number]]}))
    told = Told("orders", {}, 0.0, recipients_of([load_spec(path)]))
    ids = set()
    for at, symptom in ((1000.0, Symptom(Health.FAIL, TROUBLE)), (1300.0, Symptom(Health.PASS))):
        incidents = update_incidents("orders", told.incidents, {IncidentKind.DOWN: symptom}, at)
        told = replace(told, incidents=incidents, at=at)
        ids |= {state.incident.id for state in incidents.values() if state.incident}
        tell([told], {})
        # The log and the recipient know of it while it is open.
        assert len(told.incidents[IncidentKind.DOWN].acknowledged) == (2 if at == 1000.0 else 0)
    [incident] = ids
    return incident


def parts(received: Mapping[str, list[Any]]) -> list[tuple[str, str, str]]:
    """Return who each mail is to, its subject and its HTML."""
    found = []
    for each in received["mails"]:
        mail = message_from_bytes(each, policy=policy.default)
        body = mail.get_body(("html",))
        assert body is not None
        found.append((str(mail["To"]), str(mail["Subject"]), str(body.get_content()).strip()))
    return found


def test_slack_escapes_what_an_alert_quotes(tmp_path: Path, received: Mapping[str, list[Any]]) -> None:
    pytest.importorskip("airflow.providers.slack")
    incident = opened_and_closed(tmp_path, 0)
    safe = "No driver holds it: &lt;!channel&gt; a &amp; b."
    look = "Look: airflow streams history orders"
    assert received["posts"] == [
        {"path": "/services/T/B/x", "text": f"orders: {safe}\n{look}\nIncident: {incident}"},
        {"path": "/services/T/B/x", "text": f"orders: It is over, after 5 min: {safe}\nIncident: {incident}"},
    ]


def test_pagerduty_resolves_what_it_has_triggered(tmp_path: Path, received: Mapping[str, list[Any]]) -> None:
    pytest.importorskip("airflow.providers.pagerduty")
    incident = opened_and_closed(tmp_path, 1)
    opened, closed = received["posts"]
    assert [each["event_action"] for each in (opened, closed)] == ["trigger", "resolve"]
    assert {each["dedup_key"] for each in (opened, closed)} == {incident}
    assert {each["path"] for each in (opened, closed)} == {"/v2/enqueue"}
    payload = opened["payload"]
    assert (payload["severity"], payload["source"], payload["class"]) == ("critical", "orders", "down")
    assert payload["summary"] == f"orders: {TROUBLE}"
    assert payload["custom_details"]["text"].startswith(TROUBLE)


def test_a_mail_quotes_no_html(tmp_path: Path, received: Mapping[str, list[Any]]) -> None:
    pytest.importorskip("airflow.providers.smtp")
    incident = opened_and_closed(tmp_path, 2)
    opened, closed = parts(received)
    assert opened[:2] == ("on-call@example.org", f"orders: {TROUBLE}")
    assert opened[2].startswith("<pre>No driver holds it: &lt;!channel&gt; a &amp; b.")
    assert opened[2].endswith(f"Incident: {incident}</pre>")
    assert closed[1] == "orders is well again"


def test_a_dag_of_ones_own_tells_all_three(tmp_path: Path, received: Mapping[str, list[Any]]) -> None:
    pytest.importorskip("airflow.providers.slack")
    pytest.importorskip("airflow.providers.pagerduty")
    pytest.importorskip("airflow.providers.smtp")
    shutil.copytree(ROOT / "dags" / "streams", tmp_path / "dags" / "streams")
    shutil.copy(EXAMPLES / "orders_notify.py", tmp_path / "dags")
    found = runpy.run_path(str(tmp_path / "dags" / "orders_notify.py"))
    [notifier] = found["keeps_up"].on_failure_callback
    assert isinstance(notifier, LagNotifier)
    # Of a stream whose Kafka cannot be asked here: its lag is unknown, which is told, too.
    notifier.stream = spec_in(tmp_path)
    notifier.target = lag_target(notifier.stream, "", "")
    notifier.notify({"exception": "The lag is too large."})
    assert [to for to, _, _ in parts(received)] == ["on-call@example.org"]
    [slack] = [each for each in received["posts"] if each["path"].startswith("/services/")]
    [page] = [each for each in received["posts"] if each["path"] == "/v2/enqueue"]
    assert page["event_action"] == "trigger"
    assert page["dedup_key"] in slack["text"]
    assert page["payload"]["summary"] == parts(received)[0][1] == "orders: its lag behind Kafka is unknown"
    assert slack["text"].startswith("orders: The Airflow connection 'no_such_kafka' cannot be read")

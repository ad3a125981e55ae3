"""The forms of connections, filled in by a person in a real Chromium: saved, tested, opened again.

Spark's master, YARN and the broker are real; only Kubernetes is played (`devstack/kubernetes.py`).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Response, Route, expect

from devstack.airflow import Airflow
from devstack.certificates import Certificates
from devstack.kafka_cluster import USERS, KafkaCluster
from devstack.kubernetes import TOKEN, standin
from devstack.processes import Processes
from devstack.stack import LocalStack
from devstack.yarn import Yarn
from tests.support.browser import needs_chromium, person_at

pytestmark = needs_chromium("the forms of connections")

ROOT = Path(__file__).parents[3]
SECRET = "hunter2-that-nobody-may-read"
NOBODY = "127.0.0.1:1"
TRIES = 10
BROKERS, USER, PASSWORD = "Brokers", "SASL user", "SASL password"
MANAGERS, KEYTAB = "Web addresses of the ResourceManagers", "Kerberos: keytab"
UI, TOKEN_OF_MASTER = "URL of the masters' web UI", "Password, or bearer token without a login"
SERVER, TOKEN_OF_ACCOUNT, TEMPLATE = "API server", "Token of a service account", "Pod template of drivers"
POD = "spec:\n  serviceAccountName: spark\n  containers:\n  - name: spark-kubernetes-driver\n    image: spark:4\n"


@dataclass
class Form:
    """What a person types into a form, by the labels that he reads; `extra`: below `Extra Fields`."""

    kind: str
    standard: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)


class Connections:
    """A person at Admin > Connections."""

    def __init__(self, page: Page) -> None:
        self._page = page
        page.get_by_role("button", name="Admin").click()
        page.get_by_role("menuitem", name="Connections").click()
        page.route("**/connections/test", _without_port_zero)

    def add(self, name: str, form: Form) -> None:
        self._page.get_by_role("button", name="Add Connection").click()
        self._field("Connection ID").fill(name)
        self._dialog.get_by_role("combobox").click()
        self._page.keyboard.type(form.kind)
        self._page.get_by_role("option", name=form.kind, exact=True).click()
        self._fill_in(form.standard)
        self._open_extra()
        self._fill_in(form.extra)
        self._save()

    def change(self, name: str, standard: Mapping[str, str], extra: Mapping[str, str]) -> None:
        with self.opened(name):
            self._fill_in(standard)
            self._open_extra()
            self._fill_in(extra)
            self._save()

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[None]:
        """Open a form again, and close it."""
        self._row(name).get_by_role("button", name="Edit Connection").click()
        expect(self._field("Connection ID")).to_have_value(name)
        yield
        if self._dialog.count():
            self._dialog.get_by_role("button", name="Close").click()
        expect(self._dialog).to_have_count(0)

    def test(self, name: str) -> tuple[bool, str]:
        """Press the button, and return whether it succeeds, and what the person reads.

        What has not answered in time, on a machine with too much to do, is asked again.
        """
        for _ in range(TRIES):
            good, message = self._ask(name)
            if "has not answered for" not in message:
                break
        return good, message

    def _ask(self, name: str) -> tuple[bool, str]:
        said = self._page.locator("[data-scope=toast][data-part=root]")
        expect(said).to_have_count(0)  # what was said before goes by itself
        self._row(name).get_by_role("button", name="Test Connection").click()
        self._page.mouse.move(0, 0)  # its tooltip hides the button below
        title = said.locator("[data-part=title]").inner_text()
        return title == "Test Connection Successful", said.locator("[data-part=description]").inner_text()

    def value(self, label: str) -> str:
        """What stands in a field of the form that is open."""
        if not self._field(label).is_visible():
            self._open_extra()
        return self._field(label).input_value()

    def _fill_in(self, fields: Mapping[str, str]) -> None:
        for label, value in fields.items():
            self._field(label).click()
            self._page.keyboard.press("Control+A")
            self._page.keyboard.insert_text(value)  # as from the clipboard: with its line ends

    def _open_extra(self) -> None:
        self._dialog.get_by_role("button", name="Extra Fields", exact=True).click()

    def _save(self) -> None:
        # The button Test sends what stands in the list.
        with self._page.expect_response(_lists):
            self._dialog.get_by_role("button", name="Save").click()
        expect(self._dialog).to_have_count(0)

    @property
    def _dialog(self) -> Locator:
        return self._page.get_by_role("dialog")

    def _field(self, label: str) -> Locator:
        """The input beside a label; of extra fields, Airflow's labels do not name their inputs."""
        labelled = self._page.locator("label").filter(has_text=re.compile(rf"^{re.escape(label)}[ *]*$"))
        row = self._dialog.locator("[data-part=root][role=group]").filter(has=labelled)
        return row.locator("input:not([aria-hidden]), textarea").first

    def _row(self, name: str) -> Locator:
        return self._page.get_by_role("row").filter(has=self._page.get_by_text(name, exact=True))


def _lists(response: Response) -> bool:
    return response.request.method == "GET" and response.url.partition("?")[0].endswith("/api/v2/connections")


def _without_port_zero(route: Route) -> None:
    """Ask as Airflow's page means it: of a connection without a port, that of 3.3.2 sends port 0, and is refused."""
    body = route.request.post_data_json
    assert body is not None
    route.continue_(post_data=json.dumps({**body, "port": body["port"] or None}))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    folder = tmp_path_factory.mktemp("forms")
    (folder / "dags").mkdir()
    variables = {
        "PYTHONPATH": str(ROOT),
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__CORE__SENSITIVE_VAR_CONN_NAMES": "keytab",  # as docs/clusters.md says
    }
    with LocalStack(folder / "stack", kafka=False, dags_folder=folder / "dags", variables=variables) as started:
        yield started


@pytest.fixture
def connections(stack: LocalStack) -> Iterator[Connections]:
    with person_at(stack.airflow) as person:
        yield Connections(person.go(""))


def shows_nowhere(airflow: Airflow, secret: str) -> bool:
    """Whether a secret is in no answer of Airflow's API and in no log of its server."""
    answer = json.dumps(airflow.api.call("GET", "connections"))
    return secret not in answer + airflow.parts["api-server"].log.read_text()


def test_a_spark_master(stack: LocalStack, connections: Connections) -> None:
    extra: dict[str, Any] = stack.spark.connection["extra"]
    host, port = stack.spark.connection["host"].rsplit(":", 1)
    given = {"Masters": host, "Port": port, TOKEN_OF_MASTER: SECRET}
    addresses = {"URL of the REST submission API": extra["rest_url"], UI: extra["master_ui"]}
    connections.add("spark_here", Form("Spark streams: standalone", given, addresses))
    good, said = connections.test("spark_here")
    assert (good, said.startswith(f"The Spark master at {extra['master_ui']} is ALIVE")) == (True, True), said
    connections.change("spark_here", {}, {UI: f"http://{NOBODY}"})
    good, said = connections.test("spark_here")
    assert (good, f"http://{NOBODY} cannot be reached" in said) == (False, True), said
    assert "Traceback" not in said
    with connections.opened("spark_here"):
        assert connections.value(TOKEN_OF_MASTER) == "***"
        assert connections.value(UI) == f"http://{NOBODY}"
    assert shows_nowhere(stack.airflow, SECRET)


def test_brokers_that_ask_for_a_password(stack: LocalStack, connections: Connections, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    given = {
        "Security protocol": "SASL_SSL",
        "SASL mechanism": "PLAIN",
        USER: "reader",
        PASSWORD: USERS["reader"],
        "Certificates of authorities": str(certificates.authority),
    }
    with KafkaCluster(tmp_path / "kafka", secure=certificates) as kafka:
        right = {BROKERS: kafka.at("SASL_SSL")}
        connections.add("kafka_here", Form("Spark streams: Kafka", extra={**right, **given}))
        good, said = connections.test("kafka_here")
        assert (good, f"answers with 1 broker: {right[BROKERS]}." in said) == (True, True), said
        connections.change("kafka_here", {}, {BROKERS: NOBODY})
        good, said = connections.test("kafka_here")
        assert (good, f"Kafka at {NOBODY}" in said) == (False, True), said
        connections.change("kafka_here", {}, right)
        with connections.opened("kafka_here"):
            assert connections.value(PASSWORD) == "***"
        assert connections.test("kafka_here")[0], "the password that was not typed again is kept"
        connections.change("kafka_here", {}, {PASSWORD: SECRET})
        good, wrong = connections.test("kafka_here")
    assert not good
    assert "Traceback" not in said + wrong
    assert SECRET not in wrong
    assert shows_nowhere(stack.airflow, SECRET)
    assert shows_nowhere(stack.airflow, USERS["reader"])


def test_a_yarn(stack: LocalStack, connections: Connections, tmp_path: Path) -> None:
    with contextlib.closing(Processes(tmp_path / "logs")) as processes:
        yarn = Yarn(tmp_path / "yarn", processes)
        yarn.start()
        extra = yarn.connection["extra"]
        user = {"User as whom drivers run": yarn.connection["login"]}
        given = {MANAGERS: yarn.web_url, "Folder of Spark on every node": extra["spark_home"]}
        connections.add("yarn_here", Form("Spark streams: YARN", user, given))
        good, said = connections.test("yarn_here")
        assert (good, said.startswith(f"The ResourceManager at {yarn.web_url} is active")) == (True, True), said
    connections.change("yarn_here", {}, {MANAGERS: f"http://{NOBODY}"})
    good, said = connections.test("yarn_here")
    assert (good, NOBODY in said) == (False, True), said
    connections.change("yarn_here", {}, {"Kerberos: principal": "streams@EXAMPLE.ORG", KEYTAB: SECRET})
    good, wrong = connections.test("yarn_here")
    assert (good, "is no keytab in base64" in wrong) == (False, True), wrong
    assert "Traceback" not in said + wrong
    with connections.opened("yarn_here"):
        assert connections.value(KEYTAB) == "***"
    assert shows_nowhere(stack.airflow, SECRET)


def test_a_played_kubernetes_with_a_pod_template_of_several_lines(
    stack: LocalStack, connections: Connections, tmp_path: Path
) -> None:
    with standin(tmp_path / "kubernetes") as played:
        given = {"Namespace of drivers and executors": "streams", TEMPLATE: POD}
        form = Form("Spark streams: Kubernetes", {SERVER: played.address, TOKEN_OF_ACCOUNT: TOKEN}, given)
        connections.add("pods_here", form)
        good, said = connections.test("pods_here")
        assert (good, "the namespace streams has 0 pods of drivers" in said) == (True, True), said
        connections.change("pods_here", {TOKEN_OF_ACCOUNT: SECRET}, {})
        good, refused = connections.test("pods_here")
    assert not good, refused
    connections.change("pods_here", {SERVER: f"https://{NOBODY}"}, {})
    good, said = connections.test("pods_here")
    assert (good, NOBODY in said) == (False, True), said
    assert "Traceback" not in said + refused
    with connections.opened("pods_here"):
        assert connections.value(TOKEN_OF_ACCOUNT) == "***"
        assert connections.value(TEMPLATE) == POD
    assert shows_nowhere(stack.airflow, SECRET)

"""The forms of connections as Airflow shows them, and what their button `Test` says of what answers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from airflow.models.connection import Connection
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from airflow_stream_provider.clusters import Cluster, ClusterConnection
from airflow_stream_provider.get_provider_info import get_provider_info
from airflow_stream_provider.hooks import connection_types
from tests.support.fake_master import Master
from tests.support.fake_yarn import FakeYarn
from tests.support.pods import Pods
from tests.support.wire_kafka import KNOWN, WireKafka, wait_for_it

SECRET = "hunter2secret"
TYPES = {each["connection-type"]: each for each in get_provider_info()["connection-types"]}


class Described(WireKafka):
    """Says what it is, too."""

    known = KNOWN | {DescribeClusterRequest: (0, 1)}

    def _DescribeClusterRequest(self, request: Any) -> Any:
        broker = DescribeClusterResponse.DescribeClusterBroker
        brokers = [broker(broker_id=i, host="127.0.0.1", port=9000 + i, rack=None) for i in (1, 2)]
        return DescribeClusterResponse(error_code=0, cluster_id="wire", controller_id=1, brokers=brokers)


@pytest.fixture
def under_test(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Test a connection as Airflow's API server does: from its URI, in an environment variable."""

    def test(conn_type: str, **fields: Any) -> tuple[bool, str]:
        extra = json.dumps(fields.pop("extra", {}))
        connection = Connection(conn_id="form", conn_type=conn_type, extra=extra, **fields)
        monkeypatch.setenv("AIRFLOW_CONN_FORM", connection.get_uri())
        airflow: Any = connection
        answer: tuple[bool, str] = airflow.test_connection()
        return answer

    return test


def of_master(master: Master, password: str) -> dict[str, Any]:
    extra = {"master_ui": master.url, "rest_url": master.url, "worker_hosts": "", "rest_port": None}
    return {"host": "spark://127.0.0.1", "password": password, "extra": extra}


def test_airflow_finds_every_form_with_its_hook() -> None:
    manager: Any = ProvidersManagerTaskRuntime
    found = manager().hooks
    for conn_type, form in TYPES.items():
        hook = found[conn_type]
        assert hook is not None
        assert (hook.hook_class_name, hook.hook_name) == (form["hook-class-name"], form["hook-name"])
        assert hook.connection_id_attribute_name == "conn_id"
        assert hook.connection_testable
        named = getattr(connection_types, form["hook-class-name"].rpartition(".")[2])
        assert (named.conn_type, named.hook_name) == (conn_type, form["hook-name"])


@pytest.mark.parametrize("conn_type", TYPES)
def test_what_a_form_hides_it_does_not_label_and_secrets_are_hidden_when_typed(conn_type: str) -> None:
    behaviour, fields = TYPES[conn_type]["ui-field-behaviour"], TYPES[conn_type]["conn-fields"]
    # Airflow's page shows labels and placeholders of no others; `extra` is always "Extra Fields JSON".
    standard = {"host", "port", "login", "password", "schema", "description"}
    assert not set(behaviour["hidden-fields"]) & {*behaviour["relabeling"], *behaviour["placeholders"]}
    assert {*behaviour["relabeling"], *behaviour["placeholders"]} <= standard
    hidden = {name for name, field in fields.items() if field["schema"].get("format") == "password"}
    assert hidden == {name for name in fields if name.endswith("password") or name == "keytab"}


def test_a_pod_template_keeps_its_lines() -> None:
    assert TYPES["spark_kubernetes"]["conn-fields"]["template"]["schema"]["format"] == "multiline"


def test_a_master_that_answers_says_what_is_free(master: Master, under_test: Any) -> None:
    master.wants = f"Bearer {SECRET}"
    master.add_worker("w1")
    master.state["workers"][0] |= {"coresfree": 3, "memoryfree": 2048}
    told = under_test("spark_standalone", **of_master(master, SECRET))
    where = f"at {master.url} is ALIVE and takes drivers at {master.url}"
    assert told == (True, f"The Spark master {where}; 3 cores and 2048 MiB are free on 1 worker.")
    assert {each for each, _ in master.asked} == {"GET /json/", "GET /v1/submissions/status/none"}


def test_a_resource_manager_that_answers_says_what_is_free(fake: FakeYarn, under_test: Any) -> None:
    fake.add_node()
    fake.add_node().listed["state"] = "UNHEALTHY"
    extra = {**fake.connection().extra, "queue": "", "principal": None}
    told = under_test("spark_yarn", login="alice", extra=extra)
    assert told == (True, f"The ResourceManager at {fake.url} is active; 4096 MiB are free on 1 node.")
    assert all(each.startswith("GET ") for each in fake.asked)


def test_an_api_server_that_answers_says_how_many_drivers_it_has(pods: Pods, under_test: Any) -> None:
    given = pods.connection()
    host = given.host.removeprefix("k8s://")
    told = under_test("spark_kubernetes", host=host, password=given.password, extra=dict(given.extra))
    assert told[0], told
    assert told[1].endswith("has 0 pods of drivers.")


def test_brokers_that_answer_are_named(monkeypatch: pytest.MonkeyPatch, under_test: Any) -> None:
    wait_for_it(monkeypatch)
    monkeypatch.setattr(connection_types, "TEST_SECONDS", 60.0)
    kafka = Described()
    try:
        told = under_test("kafka_stream", extra={"bootstrap.servers": kafka.servers, "sasl.username": ""})
    finally:
        kafka.close()
    assert told == (True, "Kafka wire answers with 2 brokers: 127.0.0.1:9001,127.0.0.1:9002.")


KUBERNETES = {"namespace": "streams", "image": "spark:4", "service_account": "spark"}


@pytest.mark.parametrize(
    ("conn_type", "fields", "said"),
    [
        (
            "spark_standalone",
            {"host": "spark://127.0.0.1:1", "extra": {"master_ui": "http://127.0.0.1:1"}},
            "127.0.0.1:1",
        ),
        ("spark_standalone", {"host": f"https://me:{SECRET}@master"}, "'master' is not a supported cluster"),
        ("spark_standalone", {"host": f"spark://me:{SECRET}@master"}, "'master' is not HOST or HOST:PORT"),
        ("spark_standalone", {"host": f"local[2]:{SECRET}@master"}, "'master' is not a local master"),
        (
            "spark_standalone",
            {"host": "m", "extra": {"rest_url": f"http://me:{SECRET}@m"}},
            "rest_url in the extra has a",
        ),
        ("spark_yarn", {"login": "alice", "extra": {"principal": "a@B", "keytab": SECRET}}, "is no keytab in base64"),
        ("spark_yarn", {"extra": {}}, "is not a user of YARN"),
        ("spark_kubernetes", {"host": "api", "password": ""}, "has no credentials"),
        ("spark_kubernetes", {"host": f"https://me:{SECRET}@api"}, "'api' is no API server"),
        ("spark_kubernetes", {"host": "api", "extra": {**KUBERNETES, "template": f"a:\n  [{SECRET}"}}, "is no YAML"),
        (
            "spark_kubernetes",
            {"host": "api", "extra": {**KUBERNETES, "ui_url": f"ftp://me:{SECRET}@api"}},
            "ui_url in the extra is 'api'",
        ),
        ("kafka_stream", {"extra": {"bootstrap.servers": f"me:{SECRET}@k1:9092"}}, "not HOST or HOST:PORT: k1:9092"),
        ("kafka_stream", {"extra": {"sasl.password": SECRET}}, "names no broker"),
    ],
)
def test_what_is_wrong_is_said_without_a_secret(
    conn_type: str, fields: dict[str, Any], said: str, under_test: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answered, message = under_test(conn_type, **{"password": SECRET, **fields})
    assert not answered
    assert said in message
    assert SECRET not in message + caplog.text


def test_credentials_that_are_refused_are_not_shown(master: Master, under_test: Any) -> None:
    master.wants = "Bearer another"
    answered, message = under_test("spark_standalone", **of_master(master, SECRET))
    assert not answered
    assert "HTTP 403" in message
    assert SECRET not in message


def test_of_an_error_that_nobody_foresaw_only_its_type_and_place_are_told(
    monkeypatch: pytest.MonkeyPatch, under_test: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(connection: ClusterConnection) -> Cluster:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("airflow_stream_provider.clusters.open_cluster", fail)
    told = under_test("spark_yarn")
    assert told == (False, "The test failed with RuntimeError. The log of Airflow's API server says where.")
    assert "in fail" in caplog.text
    assert SECRET not in caplog.text


def test_importing_the_hooks_imports_no_client() -> None:
    """Airflow imports them for its list of connection types."""
    module = connection_types.__name__
    code = (
        "import sys; import airflow.sdk; from airflow.sdk import BaseHook, Asset; had = set(sys.modules);"
        f"import {module}; print(*sorted(set(sys.modules) - had))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {each for each in done.stdout.split() if not each.startswith("airflow_stream_provider")}
    assert not found & {"kafka", "kubernetes", "pyspark", "requests", "yaml", "pydantic", "http.client", "ssl"}
    assert {each.partition(".")[0] for each in found} <= set(sys.stdlib_module_names) | {"airflow"}

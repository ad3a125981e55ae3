"""The stream of docs/control.md: its commands, connection and YAML work on a real Kafka, up to the submission."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.cli.commands import diff, history, init
from airflow_stream_provider.control.owners import TopicOwners
from airflow_stream_provider.hooks import stream as hooks
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.kafka.control_root import KafkaTopic, TopicRoot
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.monitoring.folder_reading import RootReads, open_roots
from airflow_stream_provider.monitoring.readings import Reading, keep
from airflow_stream_provider.monitoring.readings import clean_up_in_turn as clean_up
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.waits import Needs
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_tools import KafkaTools
from tests.support import story
from tests.support.deployed import deploy
from tests.support.noting_cluster import NotingCluster
from tests.support.one_broker import kafka, root_of

__all__ = ["kafka", "root_of"]
PAGE = (Path(__file__).parents[3] / "docs" / "control.md").read_text()
DEPLOYMENT = "payments-1-aaaa"
HOLDER = f"{DEPLOYMENT}.00000001"
DRIVER = "orders-1-aaaaaaaa.00000001"


def read_root(url: str, spec: StreamSpec) -> RootReads:
    """Open a control root, and read a stream there, as a look does."""
    root = open_roots([url])[url]
    root.specs = [spec]
    root.read()
    return root


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, kafka: KafkaCluster) -> NotingCluster:
    """The cluster of the page's stream; its other connection is made as the page says, to the test's broker."""
    found = NotingCluster()
    (made,) = re.findall(r"airflow connections add (\w+) --conn-type kafka --conn-extra '(.*)'$", PAGE, re.M)
    extra = dict.fromkeys(json.loads(made[1]), kafka.servers)
    monkeypatch.setenv(f"AIRFLOW_CONN_{made[0].upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master")
    monkeypatch.setattr(hooks, "open_cluster", lambda connection: found)
    return found


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    for folder in ("streams", "apps", "releases"):
        (tmp_path / folder).mkdir()
    (tmp_path / "apps" / "orders.py").write_text("x = 1\n")
    path = tmp_path / "streams" / "payments.yaml"
    path.write_text(text.replace("/data/releases", str(tmp_path / "releases")))
    return load_spec(path)


def test_the_stream_of_the_page_is_deployed_watched_and_cleaned_up(
    cluster: NotingCluster, spec: StreamSpec, kafka: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ControlUnavailable, match="is not a control root") as refused:
        StreamHook.of(spec).create()
    (command,) = re.findall(r"^airflow streams init (\S+)$", PAGE, re.M)
    assert command in str(refused.value)
    for says in ("is now a control root", "is already a control root"):
        init(Namespace(control=command, verbose=False))
        assert says in capsys.readouterr().out

    hook = StreamHook.of(spec)
    assert isinstance(hook.root, TopicRoot)
    assert (hook.exists(), hook.folder) == (False, None)
    hook.create()
    assert hook.exists()
    requested = RequestedRelease.of(spec, None, None, None, [])
    deploy(hook, requested, DEPLOYMENT, goal="hold")
    assert hook.submit(DEPLOYMENT, "me", first=True)
    (job,) = cluster.jobs
    assert job.arguments[:4] == ("--control", spec.control, "--brokers", kafka.servers)
    assert job.stream_folder == ""
    (part,) = (tmp_path / "releases").iterdir()
    assert job.release_dir.startswith(str(part / "payments" / "releases"))
    assert (Path(job.release_dir) / "orders.py").read_text() == "x = 1\n"
    assert job.environment == {"STREAM_CONTROL_PROPERTIES": "/etc/streams/control.properties"}
    seen = StreamHook(**hook.address).observe(Needs())
    assert seen.state.deployments[DEPLOYMENT].submission == cluster.did[0][1]

    reads = read_root(spec.control, spec)
    assert reads.problem == ""
    reading = reads.found["payments"]
    assert isinstance(reading, Reading)
    keep(reading, LagSample(1.0), None, ())
    clean_up(reading)
    reads = read_root(spec.control, spec)
    again = reads.found["payments"]
    assert isinstance(again, Reading)
    assert again.before == LagSample(1.0)

    appointed = [story.requested("start", HOLDER), story.ready("start", HOLDER), story.acquired(HOLDER, "start", 1)]
    story.write(hook.control_log, story.standby(HOLDER), *appointed)
    asked = {"name": "payments", "folder": str(spec.source.parent), "json": True, "last": 30, "verbose": False}
    history(Namespace(**asked))
    events = json.loads(capsys.readouterr().out.splitlines()[-1])  # behind what Kafka's client has logged
    assert [each["what"] for each in events] == ["wanted", "deployed", "stood_by", "started"]
    for script, code in (("x = 1\n", 0), ("x = 2\n", 1)):
        (tmp_path / "apps" / "orders.py").write_text(script)
        with pytest.raises(SystemExit) as found:
            diff(Namespace(**asked))
        assert found.value.code == code
    fields = [each["field"] for each in json.loads(capsys.readouterr().out.splitlines()[-1])["differences"]]
    assert fields == ["release", "files.orders.py"]


def test_a_connection_that_is_missing_is_a_problem_of_its_own_root(spec: StreamSpec) -> None:
    reads = read_root("kafka://nowhere/streams", spec.model_copy(update={"control": "kafka://nowhere/streams"}))
    assert "'nowhere' cannot be read" in reads.problem
    assert list(reads.found) == ["payments"]


def test_a_claim_is_removed_as_the_page_says(
    root_of: Callable[[str], TopicRoot], kafka: KafkaCluster, tmp_path: Path
) -> None:
    root = root_of("claims")
    root.make()
    owners = TopicOwners(lambda: KafkaTopic(root._client, "kafka_test", "claims._root"))
    owners.claim("hdfs://nn/a", "orders")
    (key,) = re.findall(r"owner/\S+", owners.kept_in("hdfs://nn/a"))
    remove(key, "claims._root", kafka, tmp_path)
    assert owners.owner("hdfs://nn/a") is None
    assert owners.claim("hdfs://nn/a", "payments") == "payments"


def test_a_heartbeat_and_the_ids_of_topics_are_removed_as_the_page_says(
    root_of: Callable[[str], TopicRoot], kafka: KafkaCluster, tmp_path: Path
) -> None:
    root = root_of("beats")
    root.make()
    store = root.store("orders", create=True)
    store.put_heartbeat(DRIVER, b"{}")
    assert store.heartbeats() == [DRIVER]
    assert "`heartbeat/INCARNATION`" in PAGE
    remove(f"heartbeat/{DRIVER}", "beats.orders", kafka, tmp_path)
    assert store.heartbeats() == []
    store.put_topic_ids(b"{}")
    assert store.topic_ids() == b"{}"
    assert "`topics`" in PAGE
    remove("topics", "beats.orders", kafka, tmp_path)
    assert store.topic_ids() is None


def remove(key: str, topic: str, kafka: KafkaCluster, folder: Path) -> None:
    """Run the command of the page."""
    (command,) = re.findall(r"^(printf 'KEY.*\n.*)$", PAGE, re.M)
    for said, here in (("KEY", key), ("k1:9092", kafka.servers), ("streams._root", topic)):
        assert said in command
        command = command.replace(said, here)
    KafkaTools(folder / key.partition("/")[0]).run(command)

"""Every refusal on the real stack, beside one stream under load: one sentence, nothing touched, every record counted.

The tests follow each other, and `test_afterwards_every_record_is_there` counts. After each of them the same driver
holds, and commits; where the sentence can be said before a driver is started, the control log and the cluster have
nothing new either. What only a driver can tell, the task `submit` says.

Elsewhere: a job that does not use the checkpoint it is adopted with (`test_adopt.py`); a rewind of a query with state,
roll-backs to the warm holder and by a redeployment of the stored release (`test_operate.py`); an approval by nobody
(`test_airflow_dies.py`). With the Spark of this environment no release writes what the one before cannot read
and could run; with a later one, `tests/integration/runtime/test_way_back.py` has that sentence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaProducer, TopicPartition

from airflow_stream_provider.checkpoint import read
from airflow_stream_provider.cli.run_here import Exit, Ran, adopt_here
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.ids import application_name
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.stream import (
    HandOverOperator,
    RetireOperator,
    RollBackOperator,
    StartStreamOperator,
    StopStreamOperator,
)
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.runtime.compatibility import FORMAT
from devstack.drivers import wait_for
from devstack.kafka_writes import alter_topic
from devstack.stack import LocalStack
from devstack.stack_stream import QUERIES
from devstack.unmanaged import end_unmanaged, submit_script
from tests.support.guarded_stream import GuardedStream, damaged, guarded_stream, last_checksum, last_state, newest

SUPPORT = Path(__file__).parents[1] / "support"
# Of a topic without a record: a changed source, whose records nobody has to count.
MORE = ('f"{args.prefix}-in")', 'f"{args.prefix}-in,{args.prefix}-more")')


@pytest.fixture(scope="module")
def stream(stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedStream]:
    """The stream, release 1 running."""
    stack.broker.create_topics({"preflight-more": 1})
    with guarded_stream(stack, tmp_path_factory.mktemp("preflight"), "preflight") as stream:
        yield stream


# -- said before a driver is started ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "packages", "found", "next_step"),
    [
        ({"application": "apps/gone.py"}, "", "There is no file ", "Check `application` and `py_files`: relative"),
        ({"application": "apps/torn.py"}, "", "torn.py, line 1: this is not Python: ", "Correct the script; nothing"),
        (
            {"stored": "0123456789ab"},
            "",
            "preflight has no stored release of which the hash begins with '0123456789ab'.",
            "Those that are there, newest first: 1 (",
        ),
        (
            {},
            "delta",
            "'delta' in spark.jars.packages is no package. Nothing was touched. ",
            "Write GROUP:NAME:VERSION, several separated by commas.",
        ),
    ],
    ids=["script gone", "script torn", "hash unknown", "no package"],
)
def test_a_form_that_names_what_is_not_there(
    stream: GuardedStream, form: dict[str, Any], packages: str, found: str, next_step: str
) -> None:
    (stream.folder / "apps" / "torn.py").write_text("def half(")
    said = stream.refuses(stream.with_conf(spark__jars__packages=packages) if packages else None, **form)
    assert found in said
    assert next_step in said


def test_no_room_for_two_and_room_for_one_after_the_other(stream: GuardedStream) -> None:
    # Of 8 cores the holder has 3, its driver's included.
    wide = stream.with_conf(spark__cores__max="7")
    said = stream.refuses(wide)
    assert "The cluster has no room for preflight 1 [" in said
    assert "5 cores and " in said
    assert "the job asks for 1 core and 700 MiB for the driver, 7 cores with 700 MiB each for the executors." in said
    assert "trigger again with the strategy `restart`: the old release is stopped first" in said
    with stream.untouched():
        # As the DAG does it: with `restart` the room is looked at once the old release is gone.
        assert stream.check(spec=wide, strategy="restart", room="False")["strategy"] == "restart"


def test_an_instance_that_the_control_log_does_not_know(stream: GuardedStream) -> None:
    orders = stream.orders
    name = application_name(orders.stream, "0", "preflight-forgotten", orders.log.store.origin())
    script = SUPPORT / "app_named.py"
    job = submit_script(orders.stack.cluster.connection, script, [name], conf=orders.conf())

    def ids() -> list[str]:
        running = stream.hook.cluster.running(orders.stream, orders.log.store.origin())
        return [id for id, deployment in running.items() if deployment == "preflight-forgotten"]

    [running] = wait_for("it to be there", ids)
    assert stream.refuses() == (
        f"The cluster runs {running} for this stream, of the deployment preflight-forgotten, and the control log "
        "has none of that name. Nothing was touched. Find out who has started it, and whether the control log was put "
        f"back from an older copy; end {running} on the cluster. Then trigger again."
    )
    end_unmanaged(orders, job)
    assert stream.check()["holder"] == stream.holding, "the cure cures it"


def test_topics_are_audited_and_a_critical_finding_is_shown(stream: GuardedStream) -> None:
    """It refuses nothing: the topic is as bad for the release that runs."""
    connector = "org.apache.spark:spark-sql-kafka-0-10_2.13:3.4.0"
    with stream.untouched():
        found = stream.check(spec=stream.with_conf(spark__jars__packages=connector))["findings"]
    critical = [text for text in found if text.startswith("Audit: CRITICAL single-replica, topic preflight-in: ")]
    assert len(critical) == 1, found
    assert "wanted: more than one replica of every partition" in critical[0]
    assert "Fix: " in critical[0]
    [package] = [text for text in found if text.startswith("The release names spark-sql-kafka-0-10_2.13 3.4.0, and")]
    assert package.endswith("Where Spark stays as it is, name the packages of its version.")


@pytest.mark.parametrize("name", ["metadata", ".metadata.crc"], ids=["missing", "checksum"])
def test_a_checkpoint_that_is_damaged_beside_its_holder(stream: GuardedStream, name: str) -> None:
    """What is damaged is read at the start of a query alone, so the holder need not notice it."""
    file = stream.checkpoint("out") / name
    with stream.untouched(), damaged(file):
        said = stream.refusal()
    assert said.startswith("The checkpoint is not whole, so no driver can start on it: ")
    missing = "its file metadata, which has the id of the query, is missing"
    assert (missing if name == "metadata" else "it has other contents than its hidden checksum file says") in said
    assert "Nothing that runs was touched, and what holds the stream has all of it in memory: let it run." in said
    assert stream.check()["holder"] == stream.holding


def test_nothing_to_roll_back_to(stream: GuardedStream) -> None:
    with stream.untouched():
        said = stream.ahead(Operation.ROLL_BACK).refused
        ran = stream.task(RollBackOperator, "back", deployment=stream.holding, reason="at night")
    assert said == (
        f"No release is known that held before {stream.holding}. Upgrade to the one that you want, or redeploy a "
        "stored one."
    )
    assert (ran.code, ran.said) == (Exit.FAILED, said)


def test_a_checkpoint_that_is_managed_is_not_adopted(stream: GuardedStream, tmp_path: Path) -> None:
    orders = stream.orders
    with stream.untouched():
        said = stream.ahead(Operation.ADOPT).refused
    assert "There is nothing to adopt" in said

    # Nor by a stream of another name, whose YAML has the same arguments: by the driver's id …
    thief = stream.copied("thief")
    job = orders.state.deployments[stream.holding].submission
    with stream.untouched():
        said = stream.ahead(Operation.ADOPT, thief, job=job).refused
    assert said.endswith("is run by a stream of this provider. Stop that stream, and see docs/control.md.")

    # … or by a person's word.
    operator = AdoptOperator(task_id="adopt", stream=thief, reason="a mistake", confirmed_by="Ada", wait_seconds=600)
    operator.hook.create()
    with stream.untouched(declared=False):
        ran = adopt_here(operator, TaskIdentity("d", "adopts", "adopt"), "")
    assert ran.code is Exit.FAILED
    assert "belongs to the stream preflight of " in ran.said
    assert ", not to thief of " in ran.said
    assert "Give each stream its own checkpoint." in ran.said
    state = operator.hook.control_log.refresh()
    assert state.epoch == 0
    assert all(deployment.ended for deployment in state.deployments.values())


# -- said by the driver that comes up ------------------------------------------------------------------------------


def test_a_package_that_the_cluster_does_not_have(stream: GuardedStream) -> None:
    script = stream.script("package.py", ('readStream.format("kafka")', 'readStream.format("delta")'))
    said = stream.fails_to_come_up("package", application=script, version="needs-delta")
    assert "Release needs-delta (" in said
    assert "Failed to find the data source: delta" in said
    assert f"{stream.holding} (release 1) holds the stream" in said
    assert said.endswith("Correct it and start a new run; clearing this task changes nothing.")


def test_a_changed_source_operator_and_setting_that_nobody_has_named(stream: GuardedStream) -> None:
    script = stream.script("changed.py", MORE, ('F.sum("cents")', 'F.max("cents")'))
    said = stream.fails_to_come_up("changed", stream.with_conf(**{FORMAT: "2"}), application=script, version="changed")
    topics = "kafka:subscribe=preflight-in,preflight-more instead of kafka:subscribe=preflight-in"
    assert f"The query out reads {topics}: Spark forgets its position in a dropped topic" in said
    assert "The query totals computes Aggregate(count,max) on state made by Aggregate(count,sum): Spark accepts" in said
    assert f"The query totals changes {FORMAT}: its state cannot be read with the other format." in said
    assert "If this is intended, name it in the form's `changed_checkpoints`: PATH for a checkpoint" in said


def test_a_one_way_change_is_refused_whatever_is_named(stream: GuardedStream) -> None:
    places = [str(stream.checkpoint(query)) for query in QUERIES]
    spec = stream.with_conf(**{FORMAT: "2"})
    said = stream.fails_to_come_up("one-way", spec, version="one-way", changed_checkpoints=places)
    assert f"The query totals changes {FORMAT}: its state cannot be read with the other format." in said


# -- what changes while a run is under way -------------------------------------------------------------------------


def test_a_release_that_has_changed_since_it_was_checked(stream: GuardedStream) -> None:
    checked = stream.check("tampered", version="tampered", application=stream.script("tampered.py"))
    stored = stream.orders.folder / "releases" / checked["hash"] / "tampered.py"
    whole, mode = stored.read_bytes(), stored.stat().st_mode
    stored.chmod(0o600)
    changed = f"The files of release tampered in {stored.parent} have changed since they were published: "
    for damage, found in (
        (lambda: stored.write_bytes(whole + b"print('not what was checked')\n"), "their hash is "),
        (stored.unlink, "tampered.py is missing."),
    ):
        damage()
        with stream.untouched(), pytest.raises(StreamError) as refused:
            stream.submit("tampered", checked)
        assert str(refused.value).startswith(changed + found)
        assert "Find out who changed them, move that folder away, and deploy the release again." in str(refused.value)
    stored.write_bytes(whole)
    stored.chmod(mode)


def test_a_yaml_that_changes_in_mid_run_and_two_upgrades_at_once(stream: GuardedStream) -> None:
    orders, old = stream.orders, stream.holding
    script = stream.script("more.py", MORE)
    body = yaml.safe_load(stream.file.read_text())
    second = {**body, "application": script, "version": "2"}
    stream.write(second)
    places = [f"{stream.checkpoint(query)}: source" for query in QUERIES]
    checked = stream.check("upgrade", changed_checkpoints=places)

    # It asks for another release by now: the run goes on with what was checked, and with nothing else.
    stream.write({**second, "version": "3", "application": body["application"]})
    ran = stream.submit("upgrade", checked, changed_checkpoints=places)
    assert ran.code is Exit.DONE, ran.said
    new, family = str(ran.result["deployment"]), str(ran.result["family"])
    assert orders.state.deployments[new].release.hash == checked["hash"]

    # A second upgrade meets the hand-over of the first one, which lasts for as long as a batch hangs.
    stream.drag.touch()
    at = time.time()
    wait_for("a batch that hangs", lambda: time.time() - at > 3 and orders.in_flight() > 0)
    ended: list[Ran] = []
    take: dict[str, Any] = {"family": family, "approved": "the test"}
    runs = [
        threading.Thread(target=lambda run=run: ended.append(stream.task(HandOverOperator, run, **take)))
        for run in ("upgrade", "another")
    ]
    runs[0].start()
    wait_for("the request", lambda: orders.state.open_request)
    asked = orders.state.open_request
    assert asked is not None, "the batch hangs still"
    runs[1].start()
    submissions = stream.submissions()
    for operation, words in ((Operation.UPGRADE, {}), (Operation.REDEPLOY, {"digits": checked["hash"]})):
        said = stream.ahead(operation, **words).will[0]
        assert said.startswith(f"The request for {asked.to} to hold is under way, by {asked.by}")
        assert said.endswith("Its end is waited for first.")
    assert stream.submissions() == submissions
    stream.drag.unlink()
    for thread in runs:
        thread.join(300)
    assert [ran.code for ran in ended] == [Exit.DONE, Exit.DONE], ended
    assert stream.holding == new
    assert [r.get("to") for r in orders.records(Kind.REQUESTED)][1:] == [asked.to], "once, by whichever came first"
    assert orders.state.incarnations[asked.source or ""].deployment == old
    stream.write(second)
    orders.settle()


# -- roll-backs that cannot be ---------------------------------------------------------------------------------------


def test_a_roll_back_to_a_release_that_cannot_go_on_from_what_the_checkpoint_is_now(stream: GuardedStream) -> None:
    """The warm driver is gone, so the stored release is redeployed, and its rehearsal refuses."""
    orders, bad = stream.orders, stream.holding
    old = orders.state.deployments[bad].previous or ""
    stream.does(RetireOperator, "retires", deployment=old)
    foreseen = stream.ahead(Operation.ROLL_BACK)
    assert foreseen.release == orders.state.deployments[old].release.hash
    assert any("It rehearses on a clone of the checkpoint." in sentence for sentence in foreseen.will)
    with stream.untouched(declared=False):
        ran = stream.task(RollBackOperator, "back-cold", deployment=bad, reason="it is no good")
    assert ran.code is Exit.FAILED
    assert "Release 1 (" in ran.said
    assert "reads kafka:subscribe=preflight-in instead of kafka:subscribe=preflight-in,preflight-more" in ran.said
    assert f"{bad} (release 2) holds the stream" in ran.said
    assert [d.id for d in orders.state.deployments.values() if not d.ended] == [bad]


def test_a_roll_back_to_a_release_that_is_not_stored_any_more(stream: GuardedStream) -> None:
    release = stream.orders.state.deployments[stream.orders.state.deployments[stream.holding].previous or ""].release
    stored = stream.orders.folder / "releases" / release.hash
    aside = stored.rename(stored.with_name("aside"))
    with stream.untouched():
        said = stream.ahead(Operation.ROLL_BACK).refused
        redeployed = stream.refusal(stored=release.hash)
    aside.rename(stored)
    assert said.endswith("Upgrade to that version, with its files, or redeploy another stored release.")
    assert "Upgrade to that version instead, with its files, or redeploy another one." in redeployed
    assert not stream.ahead(Operation.ROLL_BACK).refused


# -- a stream that stands still --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(stream: GuardedStream) -> GuardedStream:
    """The stream, stopped by a person, while orders go on coming in."""
    stream.does(StopStreamOperator, "stops", reason="to look at it")
    return stream


@pytest.mark.parametrize(
    ("query", "files", "found"),
    [
        ("out", lambda root: [newest(root / "offsets")], "is in commits/, and offsets/ ends at "),
        ("totals", last_state, "/totals/state/0/1/"),
        ("totals", last_checksum, "it has other contents than its hidden checksum file says"),
    ],
    ids=["offsets", "state", "checksum"],
)
def test_a_checkpoint_that_is_not_whole(
    stopped: GuardedStream, query: str, files: Callable[[Path], list[Path]], found: str
) -> None:
    with stopped.untouched(commits=0), damaged(*files(stopped.checkpoint(query))):
        said = stopped.refusal()
    assert said.startswith("The checkpoint is not whole, so no driver can start on it: ")
    assert found in said
    assert "restore them from a back-up" in said
    assert stopped.check()["holder"] == ""


def test_afterwards_every_record_is_there(stopped: GuardedStream) -> None:
    orders = stopped.orders
    stopped.does(StartStreamOperator, "starts", reason="it is whole")
    orders.settle()
    found = orders.audit()
    print(found)
    assert (found.lost, found.duplicated, found.delivered) == (0, 0, found.produced)
    # One holder after the other, each of which ended at a batch boundary.
    epochs = [record["epoch"] for record in orders.records(Kind.ACQUIRED)]
    assert epochs == list(range(1, len(epochs) + 1))
    assert [record["boundary"] for record in orders.records(Kind.RELEASED)] == ["completed"] * (len(epochs) - 1)
    assert (orders.records(Kind.FENCED), orders.state.illegal_count) == ([], 0)


def test_records_that_kafka_deletes_before_they_are_read(stopped: GuardedStream) -> None:
    """The last one, after the count: these records are lost for good."""
    orders = stopped.orders
    topic = f"{orders.stream}-in"
    stopped.does(StopStreamOperator, "stops-again", reason="to lose records")
    with KafkaClient("kafka_under_test", orders.stack.broker.connection["extra"]) as client:
        producer = KafkaProducer(bootstrap_servers=orders.stack.bootstrap_servers)
        for _ in range(100):
            producer.send(topic, b"-1", partition=0)
        producer.close()
        # Near is what has less than half of its time left. The broker looks for what is too old every five minutes.
        alter_topic(client, topic, {"retention.ms": "60000"})

        def near() -> list[str]:
            found = [text for text in stopped.check()["findings"] if "needs next in" in text]
            return found if len(found) == len(QUERIES) else []

        with stopped.untouched(commits=0):
            said = wait_for("both queries to be near", near, 120)
        assert [text.partition(" in ")[0] for text in said] == [
            f"Kafka deletes the first records that the query {query} needs next" for query in QUERIES
        ]

        end = read(stopped.checkpoint("out")).committed[topic][0] + 100
        client._admin.delete_records({TopicPartition(topic, 0): end - 40})
    refused = stopped.refuses(commits=0)
    assert refused.startswith(
        f"Kafka has deleted 60 records that the query out has not read: of {topic}-0 it needs offset {end - 100} next, "
        f"and the log begins at {end - 40}."
    )
    assert "Restore the topic, or deploy a release with failOnDataLoss=false and write `PATH: source`, with" in refused

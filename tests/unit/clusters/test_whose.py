"""Two control logs may have a deployment of one id; what runs on the cluster that they share is told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.clusters import ClusterConnection
from airflow_stream_provider.clusters.master_api import create_submission_request
from airflow_stream_provider.clusters.whose import Whose, deployment_named, deployment_run, names_deployment
from airflow_stream_provider.lifecycle.ids import application_name
from tests.support.jobs import ARGUMENTS, job

MINE, THEIRS = "0a" * 16, "0b" * 16
DEPLOYMENT = "orders-2-1a2b"
FOLDER = ("--control", "file:///data/streams")
KAFKA = ("--control", "kafka://kafka_default/streams", "--brokers", "k1:9092")


def command(log: str = "", way: tuple[str, ...] = FOLDER, deployment: str = DEPLOYMENT) -> list[str]:
    """Return what a standalone worker starts, in the words of its log."""
    said = [f"-Dspark.airflow.stream.log={log}"] if log else []
    launcher = ["/r/launcher.py", "/r/runtime.zip", *way, "--stream", "orders", "--deployment", deployment]
    return ["java", "-Dspark.cores.max=2", *said, "DriverWrapper", "PythonRunner", *launcher, "--", "app.py"]


def test_a_deployment_is_named_by_the_exact_argument_of_the_launcher() -> None:
    assert names_deployment(ARGUMENTS, "orders-2-1a2b")
    assert not names_deployment(ARGUMENTS, "orders-2-1a2")
    assert not names_deployment(("--deployment",), "orders-2-1a2b")
    assert not names_deployment(("--", "--deployment", "orders-2-1a2b"), "orders-2-1a2b")


@pytest.mark.parametrize("way", [FOLDER, KAFKA])
def test_a_driver_that_says_its_log_is_of_that_log_whatever_the_url(way: tuple[str, ...]) -> None:
    """One URL leads to another Kafka in another Airflow, and one log is reached by two URLs."""
    mine = Whose(DEPLOYMENT, MINE, way)
    for other in (FOLDER, KAFKA, ("--control", "file:///elsewhere")):
        assert mine.runs(command(MINE, other)) is True
        assert mine.runs(command(THEIRS, other)) is False
        assert mine.runs(command(MINE, other, "orders-2-9999")) is False


def test_an_application_of_any_deployment_is_found_by_stream_and_log() -> None:
    name = application_name("orders", "2 beta [x]", DEPLOYMENT, MINE)
    assert deployment_named(name, "orders", MINE) == DEPLOYMENT
    assert deployment_named(name, "order", MINE) == ""
    assert deployment_named(name, "orders", THEIRS) == ""
    assert deployment_named(name, "orders", "") == "", "a log without a record has no drivers"
    assert deployment_named(application_name("orders", "2", DEPLOYMENT), "orders", MINE) == "", "it says no log"
    assert deployment_named("nightly report", "orders", MINE) == ""


def test_a_driver_of_any_deployment_is_found_by_stream_and_log() -> None:
    python = command()[5:]  # of the processes of a driver, only the JVM says the log
    assert deployment_run([python, command(MINE)], "orders", MINE) == DEPLOYMENT
    assert deployment_run([command(MINE)], "order", MINE) == ""
    assert deployment_run([command(THEIRS)], "orders", MINE) == ""
    assert deployment_run([command()], "orders", "") == ""
    said_by_the_script = ["java", f"-Dspark.airflow.stream.log={MINE}", "--", "--stream", "orders", "--deployment", "x"]
    assert deployment_run([said_by_the_script], "orders", MINE) == ""


@pytest.mark.parametrize("release", ["/data/releases/a", "s3a://bucket/orders/releases/a"], ids=["mounted", "fetched"])
def test_what_is_submitted_says_its_log(release: str) -> None:
    """The conf becomes properties of the driver's JVM, and arguments of SparkSubmit where the release is fetched."""
    request = create_submission_request(
        job(log=MINE, release_dir=release), ClusterConnection("spark://one").masters.url
    )
    conf, words = request["sparkProperties"], request["appArgs"]
    for started in ([*(f"-D{key}={value}" for key, value in conf.items()), *words], words):
        if started is not words or "://" in release:
            assert job(log=MINE).whose.runs(started) is True
            assert job(log=THEIRS).whose.runs(started) is False


def test_a_log_that_the_worker_does_not_show_says_nothing() -> None:
    """Its `spark.redaction.regex` may match anything, such as 32 hex digits."""
    hidden = "*********(redacted)"
    assert Whose(DEPLOYMENT, MINE, FOLDER).runs(command(hidden)) is True
    assert Whose(DEPLOYMENT, MINE, FOLDER).runs(command(hidden, KAFKA)) is None
    fetches = [*command(hidden)[:3], "SparkSubmit", "--conf", f"spark.airflow.stream.log={MINE}", *command()[3:]]
    assert Whose(DEPLOYMENT, MINE, KAFKA).runs(fetches) is True
    assert Whose(DEPLOYMENT, THEIRS, FOLDER).runs(fetches) is False


def test_what_the_script_is_given_says_nothing() -> None:
    forged = [*command(THEIRS), "--conf", f"spark.airflow.stream.log={MINE}", "--deployment", "other"]
    assert Whose(DEPLOYMENT, MINE, FOLDER).runs(forged) is False
    assert Whose("other", THEIRS, FOLDER).runs(forged) is False


@pytest.mark.parametrize(
    ("way", "found"),
    [
        (FOLDER, True),
        (("--control", "file:/data/streams"), True),
        (("--control", "file://localhost/data//streams/"), True),
        (("--control", "file:///data/other"), None),
        (("--control", "file://[data/streams"), None),  # no URL: anybody may submit anything
        (("--control", "file:///data/\ud800"), None),
        (KAFKA, None),
        ((), None),
    ],
)
def test_a_driver_that_says_no_log_is_ours_by_the_url_of_its_log(way: tuple[str, ...], found: bool | None) -> None:
    assert Whose(DEPLOYMENT, MINE, FOLDER).runs(command(way=way)) is found
    assert Whose(DEPLOYMENT, "", FOLDER).runs(command(MINE, way)) is found, "the first record cannot be read now"


def test_one_that_says_no_log_and_whose_brokers_are_others_may_be_anybody_s() -> None:
    """Two Airflows have a connection of one name; or brokers were added to it."""
    mine = Whose(DEPLOYMENT, MINE, KAFKA)
    assert mine.runs(command(way=KAFKA)) is True
    assert mine.runs(command(way=(*KAFKA[:3], "k2:9092"))) is None


def test_a_link_to_the_control_folder_is_another_spelling_of_it(tmp_path: Path) -> None:
    (tmp_path / "streams").mkdir()
    (tmp_path / "link").symlink_to("streams")
    found = [Whose(DEPLOYMENT, MINE, ("--control", (tmp_path / name).as_uri())) for name in ("streams", "link")]
    assert [each.runs(command(way=other.reached_by)) for each in found for other in found] == [True] * 4


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ([command(MINE), command()], True),
        ([command(THEIRS), command()], False),  # its Python has the same URL, and says no log
        ([["python", "-m", "pyspark.daemon"], command(MINE)], True),
        ([command(way=KAFKA), command(MINE)], True),
        ([command(way=KAFKA)], None),
        ([["python", "-m", "pyspark.daemon"]], None),  # the JVM has just ended
    ],
)
def test_of_all_processes_of_a_driver_those_decide_that_say_their_log(
    commands: list[list[str]], found: bool | None
) -> None:
    assert Whose(DEPLOYMENT, MINE, FOLDER).runs_any(commands) is found


def test_an_application_is_ours_by_its_name_unless_that_says_another_log() -> None:
    mine = Whose(DEPLOYMENT, MINE)
    assert mine.owns(application_name("orders", "2.1", DEPLOYMENT, MINE))
    assert mine.owns(application_name("orders", "2.1", DEPLOYMENT)), "not known when it was submitted"
    assert not mine.owns(application_name("orders", "2.1", DEPLOYMENT, THEIRS))
    assert not mine.owns(application_name("orders", "2.1", "orders-2-9999", MINE))
    assert Whose(DEPLOYMENT).owns(application_name("orders", "2.1", DEPLOYMENT, THEIRS)), "our own is not known now"
    for odd in (" 1a2b3c4d", "1a2b3c ", "\t\n"):  # as only a forged first record has it; one that is ours is not gone
        assert Whose(DEPLOYMENT, odd).owns(application_name("orders", "2.1", DEPLOYMENT, odd))

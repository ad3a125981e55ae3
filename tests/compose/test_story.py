"""docker-compose.yaml in containers: its services as `docker compose up` starts them, then the demo's story on them.

`make test-compose` has built the images before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import requests

from demo.environment import TOPICS
from devstack.compose.__main__ import FOLDER
from devstack.compose.stack import REPORT, ComposeStack, running
from tests.support.demo_report import check_report

pytestmark = pytest.mark.system
STORY_SECONDS = 3600.0


@pytest.fixture(scope="module")
def stack() -> Iterator[ComposeStack]:
    """The services without a profile, all healthy; everything is removed at the end."""
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {what}", flush=True)

    for old in REPORT.glob("*"):
        old.unlink()
    with running(FOLDER, say) as started_stack:
        yield started_stack
        say("stopping")
    say("everything is removed")


def test_a_plain_up_has_the_topics_and_every_service_is_healthy(stack: ComposeStack) -> None:
    tool = ("/opt/kafka/bin/kafka-topics.sh", "--bootstrap-server", "kafka:9092", "--describe")
    said = stack.execute("kafka", *tool)
    found = [dict(part.split(": ", 1) for part in line.split("\t") if ": " in part) for line in said.splitlines()]
    topics = {topic["Topic"]: int(topic["PartitionCount"]) for topic in found if "PartitionCount" in topic}
    assert {name: topics.get(name) for name in TOPICS} == TOPICS
    for name, service in stack.services.items():
        if "healthcheck" in service:
            assert stack.healthy(name), stack.tail(name)
            assert stack.state(name) == "running (0, 0 restarts)"


def test_pages_are_where_the_file_publishes_them(stack: ComposeStack) -> None:
    airflow = requests.get("http://127.0.0.1:8080/api/v2/monitor/health", timeout=60)
    assert airflow.json()["scheduler"]["status"] == "healthy"
    worker = requests.get("http://127.0.0.1:8081/json/", timeout=60)
    assert worker.json()["masterurl"] == "spark://spark-master:7077"


def test_the_demo_tells_its_story(stack: ComposeStack) -> None:
    stack.start("demo")
    stack.wait("demo", STORY_SECONDS)
    report = check_report(REPORT)
    print(stack.tail("demo", 40), report["records"], f"{report['seconds_total']} s")

"""Records are read again by the form of a real Airflow, with its scheduler and triggerer, on the real stack."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.read import read
from airflow_stream_provider.runbook.by_hand import upgrade_run
from demo.environment import DemoEnvironment
from devstack.audit import deliveries, end_offsets, final_totals, read_topic, wrong_totals
from devstack.drivers import wait_for
from devstack.producer import Producer
from devstack.workload import totals
from tests.support.example_site import example_site

UPGRADE, OPERATE = "orders__upgrade", "orders__operate"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[DemoEnvironment]:
    with example_site(tmp_path, UPGRADE, OPERATE) as (_, site):
        yield site


def run_of(site: DemoEnvironment, dag: str, run: str) -> None:
    assert site.airflow.wait_for_run(dag, run, 600) == "success", site.airflow.task_states(dag, run)


def all_committed(site: DemoEnvironment) -> bool:
    ends = end_offsets(site.brokers, "orders")
    return all(read(folder).committed.get("orders") == ends for folder in site.checkpoints.values())


def test_each_record_since_then_comes_out_once_more_and_no_other(site: DemoEnvironment) -> None:
    with Producer(site.brokers, "orders", 300) as producer:
        run_of(site, UPGRADE, site.airflow.trigger(UPGRADE, {"version": "1", "arguments": list(site.spec.arguments)}))
        since = time.time()
        sent = producer.sent
        wait_for("more orders", lambda: producer.sent > sent + 3000)
        produced = producer.stop()
    wait_for("every order to be committed", lambda: all_committed(site))

    again: list[int] = []
    later: set[int] = set()
    for record in read_topic(site.brokers, "orders"):
        if record.at * 1000 >= int(since * 1000):
            later.add(record.partition)
        if record.partition in later:
            again.append(json.loads(record.value)["id"])
    assert 3000 <= len(again) < produced
    once = Counter(range(produced))
    assert Counter(number for number, _ in deliveries(site.brokers, "orders-enriched")) == once

    conf = {"operation": "rewind", "to": datetime.fromtimestamp(since, UTC).isoformat(), "reason": "wrong rates"}
    run = site.airflow.trigger(OPERATE, {**conf, "ask": False})
    assert site.airflow.wait_for_run(OPERATE, run, 600) == "failed", "the query totals keeps state"
    assert "cannot be rewound: it keeps state" in site.airflow.task_log(OPERATE, run, "look")

    run = site.airflow.trigger(OPERATE, {**conf, "query": "enrich", "ask": False})
    run_of(site, OPERATE, run)
    assert f"enrich: {len(again):,} records of orders" in site.airflow.task_log(OPERATE, run, "look")
    run_of(site, UPGRADE, upgrade_run(run))
    wait_for("every order to be committed again", lambda: all_committed(site))
    twice = once + Counter(again)
    assert Counter(number for number, _ in deliveries(site.brokers, "orders-enriched")) == twice
    assert wrong_totals(totals(produced), final_totals(site.brokers, "order-totals")) == {}
    holder = site.log.refresh().holding_deployment
    assert holder is not None
    assert holder.rewind is not None

    # The same once more changes nothing.
    run = site.airflow.trigger(OPERATE, {**conf, "query": "enrich", "ask": False})
    run_of(site, OPERATE, run)
    assert "that is done once. enrich goes back after batch" in site.airflow.task_log(OPERATE, run, "look")
    assert Counter(number for number, _ in deliveries(site.brokers, "orders-enriched")) == twice

"""Two control roots on one cluster, with a stream, a deployment and an application of the same names."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.waits import Needs
from devstack.control_folder import folder_of, publish
from devstack.drivers import wait_for
from tests.support.places import SMALL, Place
from tests.support.story import record, write

# It has executors, and no query: the driver stays what it is until it is killed.
SCRIPT = """
import time
from pyspark.sql import SparkSession
print(SparkSession.builder.getOrCreate().range(4).count())
time.sleep(3600)
"""


def airflow_connection(place: Place) -> str:
    """Return the cluster's connection as an environment variable of Airflow holds it."""
    cluster = place.connection
    assert cluster.kubernetes is None, "the extra of another connection would have to be given too"
    names = ("host", "port", "login", "password")
    return json.dumps(
        {"conn_type": "spark", "extra": dict(cluster.extra)} | {name: getattr(cluster, name) for name in names}
    )


def declared(control: Path, deployment: str, conf: Mapping[str, str]) -> StreamHook:
    """Return the hook of a stream with a deployment that was declared a moment ago, by a task that has died since."""
    make_root(control.as_uri())
    hook = StreamHook("orders", control.as_uri(), "shared")
    hook.create()
    script = control / "orders.py"
    script.write_text(SCRIPT)
    log = hook.control_log
    release = publish(folder_of(log), version="1", application=script, conf={**SMALL, **conf, "spark.cores.max": "1"})
    write(log, record("declared", deployment=deployment, release=release.to_json(), policy={}, reason=""))
    return hook


def facts(hook: StreamHook, deployment: str) -> DriverFacts:
    return hook.observe(Needs(drivers=(deployment,))).drivers[deployment]


def test_neither_adopts_waits_for_or_kills_the_driver_of_the_other(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.opener != Place.opener:
        pytest.skip("a hook opens no cluster of one's own")
    monkeypatch.setenv("AIRFLOW_CONN_SHARED", airflow_connection(place))
    same = f"orders-1-{secrets.token_hex(4)}"
    one, two = (declared(tmp_path / name, same, place.conf) for name in ("one", "two"))
    assert one.submit(same, "test", first=True)
    try:
        # As a retried task: what the cluster runs of the other has the id that it looks for.
        wait_for("a driver of its own", lambda: two.submit(same, "test", first=False))
        first, second = (hook.observe().submission(same) for hook in (one, two))
        assert first != second
        wait_for(
            "both applications",
            lambda: all(
                any(beat.application_id for beat in hook.control_log.heartbeats(same).values()) for hook in (one, two)
            ),
        )
        one.kill(same)
        wait_for("its driver and executors to be gone", lambda: facts(one, same).gone)
        assert facts(two, same).state is DriverState.RUNNING
        two.kill(same)
        wait_for("the other's to be gone", lambda: facts(two, same).gone)
    finally:
        for hook in (one, two):
            hook.kill(same)

"""Two control roots with one storage: neither removes the release by which the other brings back a real driver."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import status_of
from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.about_drivers import driver_links
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.ids import request_id
from airflow_stream_provider.monitoring.readings import clean_up_stream
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.drivers import wait_for
from tests.support import releases
from tests.support.deployed import deploy
from tests.support.places import SMALL


class Stream:
    """The stream `orders` of one control root, whose drivers run on this machine."""

    def __init__(self, root: Path, storage: Path) -> None:
        self.root = root
        root.mkdir()
        make_root(root.as_uri())
        self.hook = StreamHook("orders", root.as_uri(), "spark_here", storage=storage.as_uri())
        self.hook.create()
        app = Path(releases.__file__).with_name("app_udf.py")
        (root / "apps").mkdir()
        (root / "apps" / app.name).write_bytes(app.read_bytes())
        (root / "apps" / "helper.py").write_text("def double(number):\n    return 2 * number\n")

    @property
    def out(self) -> Path:
        return self.root / "out"

    def declare(self) -> str:
        """Publish the release and declare a deployment of it."""
        deployment = f"orders-1-{secrets.token_hex(4)}"
        spec = StreamSpec.model_validate(
            {
                "name": "orders",
                "application": "apps/app_udf.py",
                "py_files": ["apps/helper.py"],
                "arguments": [str(self.out), str(self.root / "checkpoint")],
                "version": "1",
                "cluster": "spark_here",
                "control": self.hook.control,
                "conf": SMALL,
                "upgrade": {"rehearse_batches": 0},
            }
        )
        spec._source = self.root / "streams" / "orders.yaml"
        requested = RequestedRelease.of(spec, None, None, None, None)
        deploy(self.hook, requested, deployment)
        return deployment

    def declare_again(self, deployment: str) -> str:
        """Declare the release of a deployment once more, as the watch does for a stream that is down."""
        again, log = f"orders-1-{secrets.token_hex(4)}", self.hook.control_log
        fields = {name: log.records()[0][name] for name in ("release", "policy")}
        assert log.refresh().deployments[deployment].release.to_json() == fields["release"]
        assert self.hook.append("declared", "me", log.state.seq, **fields, deployment=again, reason="it died")
        return again

    def run(self, deployment: str) -> str:
        """Submit a deployment, let its driver take over, and return its incarnation when it has done a batch."""
        assert self.hook.submit(deployment, "me", first=True)

        def standby() -> str | None:
            state = self.hook.control_log.refresh()
            assert not state.deployments[deployment].ended, state.deployments[deployment].reason
            status = status_of(self.hook.cluster, state.deployments[deployment].submission)
            assert not status.terminal, driver_links(self.hook, deployment)
            return next((each.id for each in state.of_deployment(deployment)), None)

        incarnation = str(wait_for("a standby", standby))
        self.out.unlink(missing_ok=True)
        request = {"request": request_id(deployment), "to": incarnation, "expires": time.time() + 600, "reason": "why"}
        assert self.hook.append("requested", "me", self.hook.control_log.refresh().seq, **request)
        wait_for("a batch", self.out.is_file)
        return incarnation


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "storage").mkdir()
    return tmp_path / "storage"


@pytest.fixture
def streams(tmp_path: Path, storage: Path) -> Iterator[dict[str, Stream]]:
    found = {name: Stream(tmp_path / name, storage) for name in ("staging", "production")}
    yield found
    for stream in found.values():
        for deployment in stream.hook.control_log.refresh().deployments:
            stream.hook.kill(deployment)


@pytest.mark.system
def test_a_driver_whose_release_another_root_has_cleaned_up_beside_is_brought_back(
    streams: dict[str, Stream], storage: Path
) -> None:
    staging, production = streams.values()
    staging.declare()
    first = production.declare()
    died = production.run(first)
    for stream in streams.values():
        for path in storage.rglob("*"):
            os.utime(path, times=(0, 0))
        clean_up_stream(stream.hook)
    production.hook.kill(first)
    seq = production.hook.control_log.refresh().seq
    if production.hook.control_log.state.holder:  # it was killed before it could say that it ends
        assert production.hook.append("fencing", "me", seq, incarnation=died, reason="it died")
        assert production.hook.append("fenced", "me", seq + 1, incarnation=died, reason="it died", evidence={})
    production.run(production.declare_again(first))

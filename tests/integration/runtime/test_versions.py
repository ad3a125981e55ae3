"""Real drivers of the recorded runtime and of today's on one stream; tests/unit/formats has the same without Spark."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP, file_hashes, make_release, release_hash
from airflow_stream_provider.lifecycle.release import Release
from devstack import control_folder
from devstack.drivers import HandRunStream, hand_run_stream
from tests.support.hand_run import end, hand_over_and_back, show
from tests.support.orders_files import Orders

APP = Path(__file__).parents[2] / "support" / "app_orders_files.py"
OLDER = Path(__file__).parents[2] / "fixtures" / "format-1" / RUNTIME_ZIP


def older_release(**parts: Any) -> tuple[Release, dict[str, bytes]]:
    """As `make_release`, with the recorded runtime and its launcher."""
    made, files = make_release(**parts)
    with zipfile.ZipFile(OLDER) as archive:
        files[LAUNCHER] = archive.read(f"airflow_stream_provider/runtime/{LAUNCHER}")
    files[RUNTIME_ZIP] = OLDER.read_bytes()
    return replace(made, hash=release_hash(made.settings(), file_hashes(files)), format=1), files


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


@pytest.mark.system  # two minutes each
@pytest.mark.parametrize("older", ["orders-1", "orders-2"])
def test_drivers_of_two_versions_hand_over_and_back(
    stream: HandRunStream, orders: Orders, monkeypatch: pytest.MonkeyPatch, older: str
) -> None:
    orders.flow()
    for deployment in ("orders-1", "orders-2"):
        monkeypatch.setattr(control_folder, "make_release", older_release if deployment == older else make_release)
        stream.deploy(deployment, APP, str(orders.root))
        if deployment == "orders-1":
            first = stream.standby(deployment)
            stream.hand_over(first)
            orders.go_on("orders of the first")
    published = stream.folder / "releases" / stream.state.deployments[older].release.hash / RUNTIME_ZIP
    assert published.read_bytes() == OLDER.read_bytes()
    hand_over_and_back(stream, orders, first, "orders-2")
    end(stream, orders)

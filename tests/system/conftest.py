"""One real Kafka and one real Spark cluster for all system tests."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.stack import LocalStack
from devstack.stack_stream import StackStream, stack_stream


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker("system")


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def orders(stack: LocalStack, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StackStream]:
    """A stream of the test's own, its producer running, no driver yet."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:32].rstrip("-")
    # Names that are cut are alike in two cases of one test, and so would be their topics.
    name = f"{words}-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:7]}"
    with stack_stream(tmp_path, stack, name) as opened:
        yield opened
        for record in opened.log.records():  # shown when the test fails
            print(record.seq, record.kind, record.by, {k: v for k, v in record.fields.items() if k != "release"})


@pytest.fixture
def pair(orders: StackStream) -> tuple[StackStream, str, str]:
    """The stream with a holder that runs and a warm standby, both policy defaults."""
    orders.submit("one")
    orders.submit("two")
    one, two = orders.standby("one"), orders.standby("two")
    orders.hand_over(one)
    orders.settle()
    return orders, one, two

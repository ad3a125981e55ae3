"""Which heartbeats of a stream are read."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.hooks.drivers import living_heartbeats
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    STOPPED,
    declared,
    retired,
    write,
)


@pytest.mark.parametrize(
    ("records", "read"),
    [
        ([], set()),
        ([declared(OLD_DEPLOYMENT), declared(NEW_DEPLOYMENT)], {OLD, NEW}),
        (PREPARED, {OLD, NEW}),
        (INTERRUPTED, {OLD, NEW}),
        ([*HANDED_OVER, retired(OLD_DEPLOYMENT)], {NEW}),
        ([*STOPPED, retired(OLD_DEPLOYMENT), retired(NEW_DEPLOYMENT)], {OLD}),
    ],
    ids=["of no deployment", "not announced yet", "alive", "to be fenced", "ended", "held last"],
)
def test_heartbeats_of_those_that_still_matter_are_read(hook: StreamHook, records: list[Any], read: set[str]) -> None:
    write(hook.control_log, *records)
    for name in (OLD, NEW):
        hook.control_log.beat(name, Heartbeat(counter=1))
    assert living_heartbeats(hook.control_log, hook.control_log.refresh()).keys() == read

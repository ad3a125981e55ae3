"""What the suite does again and again: ask a log through an outage, write on in it, see who stops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced, ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.state import StreamState
from tests.support.store_contract.place import Place, log_of
from tests.support.story import NEW, OLD, declared, write

T = TypeVar("T")


def able(place: Place, *what: str) -> None:
    """Skip the test of what this store cannot suffer, and say why."""
    for each in what:
        if each in place.cannot:
            pytest.skip(f"{each}: {place.cannot[each]}")


@contextmanager
def unavailable() -> Iterator[None]:
    """An outage, which is over one day, and no damage."""
    with pytest.raises(ControlUnavailable) as found:
        yield
    assert not isinstance(found.value, ControlLogDamaged), found.value


def answered(ask: Callable[[], T]) -> T:
    """Return an answer, after an outage that may still last for a while."""
    until = time.monotonic() + 120
    while True:
        try:
            return ask()
        except ControlUnavailable as error:
            if isinstance(error, ControlLogDamaged) or time.monotonic() > until:
                raise
            time.sleep(0.1)


def settled(log: ControlLog, deployment: str) -> StreamState:
    """Declare a deployment that may have been declared, as a task that is tried again."""
    return answered(
        lambda: log.propose(lambda state: None if deployment in state.deployments else declared(deployment))
    )


def names(place: Place) -> list[Any]:
    """Return the deployments that somebody reads who opens the log now, in their order."""
    log = log_of(place.open())
    found = answered(log.records)
    assert answered(log.refresh).illegal_count == 0
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    return [record["deployment"] for record in found]


def begun(place: Place, *deployments: str) -> ControlLog:
    """Return a log with declarations, and the heartbeat of a driver."""
    log = log_of(place.open())
    write(log, *map(declared, deployments))
    log.beat(OLD, Heartbeat(counter=1))
    return log


def stopped(log: ControlLog, *errors: type[Exception]) -> None:
    """Check that one who has read a log of before neither reads on nor writes."""
    for act in (log.refresh, lambda: log.append(declared("more"), log.state.seq)):
        with pytest.raises(errors or ControlLogReplaced):
            act()


def grow(place: Place, seq: int, more: int) -> None:
    """Write on in the log that is there now, as a stream does.

    A client that reads by name, and stands where the new log ends, notices it with the next message, so there are two
    heartbeats.
    """
    other = log_of(place.open())
    assert answered(other.refresh).seq == seq
    write(other, *(declared(str(number)) for number in range(more)))
    for counter in (1, 2):
        other.beat(NEW, Heartbeat(counter=counter))

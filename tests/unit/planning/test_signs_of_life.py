"""When a driver is called alive, and when dead."""

from __future__ import annotations

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.waits import Ended
from tests.support.looks import Watch, driver, seen
from tests.support.snapshots import BOTH
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT
from tests.support.there import there


def test_a_driver_lives_when_it_has_beaten_since_and_is_dead_after_two_leases() -> None:
    condition, watch = SignsOfLife({OLD: 1, NEW: 1}, 30.0), Watch()
    assert condition.check(seen(BOTH, {OLD: 1, NEW: 1}), watch.seen) is None
    assert condition.check(seen(BOTH, {OLD: 2, NEW: 1}), watch.seen) is None, "of the other one nothing is known"
    watch.now = 40.0
    assert condition.check(seen(BOTH, {OLD: 9, NEW: 1}), watch.seen) is None
    assert condition.needs(seen(BOTH, {OLD: 9, NEW: 1}), watch.seen).drivers == (NEW_DEPLOYMENT,)
    dead = {NEW_DEPLOYMENT: driver(DriverState.KILLED)}
    for found in (
        condition.check(seen(BOTH, {OLD: 9, NEW: 1}, dead), watch.seen),
        SignsOfLife({NEW: 1}, 15.0).check(seen(BOTH, {NEW: 1}), watch.seen),
    ):
        assert found is not None
        assert found.about(Ended.REACHED, SignsOfLife.SUBJECT)
        assert found.evidence[NEW] is False
        assert found.counters == {NEW: 1}
    assert there(condition.check(seen(BOTH, {OLD: 9, NEW: 2}), watch.seen)).evidence == {OLD: True, NEW: True}


def test_one_that_beat_and_fell_silent_while_another_was_waited_for_is_not_called_alive() -> None:
    condition, watch = SignsOfLife({OLD: 1, NEW: 1}, 30.0), Watch()
    assert condition.check(seen(BOTH, {OLD: 2, NEW: 1}), watch.seen) is None
    watch.now = 20.0
    assert condition.check(seen(BOTH, {OLD: 2, NEW: 2}), watch.seen) is None, "the first one is silent by now"
    assert condition.needs(seen(BOTH, {OLD: 2, NEW: 2}), watch.seen).drivers == (OLD_DEPLOYMENT,)
    watch.now = 61.0
    found = there(condition.check(seen(BOTH, {OLD: 2, NEW: 9}), watch.seen))
    assert (found.evidence, found.counters) == ({OLD: False, NEW: True}, {OLD: 2})

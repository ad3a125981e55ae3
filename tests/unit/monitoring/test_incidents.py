"""When incidents open and close, and who is told of it: everyone once when it opens, and once when it is over."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lag.limits import Health, Streaks
from airflow_stream_provider.monitoring.alert import Alert, pending_alerts
from airflow_stream_provider.monitoring.incidents import (
    Incident,
    IncidentKind,
    IncidentState,
    Symptom,
    incident_now,
    update_incidents,
)

BAD, GOOD, UNKNOWN = Health.FAIL, Health.PASS, Health.UNKNOWN


class Watch:
    """Looks once a minute."""

    def __init__(self, for_at_least: float = 0.0) -> None:
        self.for_at_least = for_at_least
        self.now = 0.0
        self.incidents: Mapping[str, IncidentState] = {}
        self.recipients = ["pager"]
        self.received: list[tuple[str, str, bool]] = []
        self.failing: set[str] = set()

    def look(self, health: Health, says: str = "it is behind", *, worse: bool = False) -> list[Alert]:
        self.now += 60.0
        symptom = Symptom(health, says, self.for_at_least, worse)
        self.incidents = update_incidents("orders", self.incidents, {IncidentKind.LAG: symptom}, self.now)
        self.incidents = {kind: IncidentState.from_json(each.to_json()) for kind, each in self.incidents.items()}
        alerts = pending_alerts("orders", self.incidents, self.now, self.recipients)
        for alert, recipients in alerts:
            delivered = [name for name in recipients if name not in self.failing]
            state = self.incidents[alert.kind].acknowledge(delivered, open=alert.open)
            self.incidents = {**self.incidents, alert.kind: state}
            self.received += [(name, alert.incident, alert.open) for name in delivered]
        return [alert for alert, _ in alerts]

    def run(self, *looks: Health) -> list[tuple[float, bool]]:
        return [(alert.at, alert.open) for look in looks for alert in self.look(look)]


def test_it_is_told_when_it_opens_and_when_it_is_over_and_never_in_between() -> None:
    assert Watch().run(GOOD, BAD, BAD, BAD, GOOD, GOOD) == [(120.0, True), (300.0, False)]


def test_what_becomes_worse_is_told_again_with_the_same_id_and_is_over_once() -> None:
    watch = Watch()
    watch.look(BAD, worse=True)
    watch.failing = {"pager"}
    watch.look(BAD, "it is worse", worse=True)
    watch.failing = set()
    [again] = watch.look(BAD, "it is worse")
    assert (again.open, again.reasons) == (True, ("it is worse",))
    assert watch.look(BAD) == []
    watch.failing = {"pager"}
    watch.look(BAD, worse=True)
    watch.failing = set()
    watch.look(GOOD)
    assert watch.received == [("pager", again.incident, True)] * 2 + [("pager", again.incident, False)]


def test_the_id_is_the_same_and_new_the_next_time() -> None:
    watch = Watch()
    ids = [alert.incident for health in (BAD, GOOD, BAD, GOOD) for alert in watch.look(health)]
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_a_spike_is_not_told_and_a_lag_that_wavers_is_one_incident() -> None:
    assert Watch(120.0).run(BAD, BAD, GOOD, BAD, GOOD) == []
    looks = (BAD, BAD, BAD, GOOD, BAD, GOOD, GOOD, BAD, GOOD, GOOD, GOOD)
    assert Watch(120.0).run(*looks) == [(180.0, True), (660.0, False)]


def test_what_cannot_be_known_neither_opens_nor_ends_anything() -> None:
    assert Watch().run(UNKNOWN, BAD, UNKNOWN, UNKNOWN, BAD, GOOD) == [(120.0, True), (360.0, False)]


def test_what_could_not_be_told_is_told_at_the_next_look() -> None:
    watch = Watch()
    watch.failing = {"pager"}
    assert len(watch.look(BAD)) == 1
    assert len(watch.look(BAD)) == 1
    watch.failing = set()
    assert [alert.open for alert in watch.look(BAD)] == [True]
    assert watch.look(BAD) == []
    watch.failing = {"pager"}
    assert [alert.open for alert in watch.look(GOOD)] == [False]
    watch.failing = set()
    assert [alert.open for alert in watch.look(GOOD)] == [False]
    assert watch.look(GOOD) == []


def test_a_recipient_that_fails_keeps_no_other_from_being_told_once() -> None:
    watch = Watch()
    watch.recipients = ["mail", "pager"]
    watch.failing = {"mail"}
    watch.run(BAD, BAD, BAD, GOOD, GOOD)
    assert [(name, opened) for name, _, opened in watch.received] == [("pager", True), ("pager", False)]
    watch.received.clear()
    watch.run(BAD)
    watch.failing = set()
    watch.run(BAD, GOOD)
    assert [(name, opened) for name, _, opened in watch.received] == [
        ("pager", True),
        ("mail", True),
        ("mail", False),
        ("pager", False),
    ]


def test_an_incident_whose_opening_nobody_received_needs_no_end() -> None:
    watch = Watch()
    watch.failing = {"pager"}
    watch.look(BAD)
    assert watch.look(GOOD) == []


def test_a_kind_without_a_symptom_stays_as_it_is() -> None:
    incidents = update_incidents("orders", {}, {IncidentKind.LAG: Symptom(BAD, "far")}, 1.0)
    after = update_incidents("orders", incidents, {IncidentKind.DOWN: Symptom(GOOD)}, 2.0)
    assert after["lag"] == incidents["lag"]


@given(st.lists(st.sampled_from(list(Health)), max_size=60), st.sampled_from([0.0, 2.0, 5.0]))
def test_an_incident_opens_and_closes_in_turn_and_never_for_less_than_was_asked(
    looks: list[Health], seconds: float
) -> None:
    streaks, present = Streaks(), None
    changes: list[tuple[float, Incident | None]] = []
    for at, found in enumerate(looks):
        streaks.add(found, float(at))
        now = incident_now("s", present, streaks, float(at), seconds)
        if now != present:
            changes.append((float(at), now))
            assert found is not Health.UNKNOWN
            assert _lasted(looks[: at + 1], now, seconds)
        present = now
    kinds = [incident is not None for _, incident in changes]
    assert kinds == [n % 2 == 0 for n in range(len(kinds))]


def _lasted(looks: list[Health], now: Incident | None, seconds: float) -> bool:
    """Whether no look of the last so many seconds says the opposite."""
    opposite = Health.PASS if now else Health.FAIL
    return opposite not in looks[-int(seconds) - 1 :]


def test_the_same_beginning_is_the_same_incident() -> None:
    first, again = Incident.of("orders", 1_700_000_000.4), Incident.of("orders", 1_700_000_000.4)
    assert first == again
    assert first.id == "orders-20231114T221320Z"
    assert Incident.from_json(json.loads(json.dumps(first.to_json()))) == first

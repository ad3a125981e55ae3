"""Each trouble is told twice: when it opens, and when it is over."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.monitoring.incidents import Alert, IncidentState, Symptom, follow, told, untold

BAD, GOOD, UNKNOWN = Health.FAIL, Health.PASS, Health.UNKNOWN


class Watch:
    """Looks once a minute."""

    def __init__(self, for_at_least: float = 0.0) -> None:
        self.for_at_least = for_at_least
        self.now = 0.0
        self.incidents: Mapping[str, IncidentState] = {}
        self.people = ["pager"]
        self.heard: list[tuple[str, str, bool]] = []
        self.deaf: set[str] = set()

    def look(self, health: Health, says: str = "it is behind") -> list[Alert]:
        self.now += 60.0
        symptom = Symptom(health, says, self.for_at_least)
        self.incidents = follow("orders", self.incidents, {"lag": symptom}, self.now)
        self.incidents = {kind: IncidentState.from_json(t.to_json()) for kind, t in self.incidents.items()}
        alerts = untold("orders", self.incidents, self.now, self.people)
        for alert, people in alerts:
            self.incidents = told(self.incidents, alert, set(people) - self.deaf)
            self.heard += [(who, alert.incident, alert.open) for who in people if who not in self.deaf]
        return [alert for alert, _ in alerts]

    def run(self, *looks: Health) -> list[tuple[float, bool]]:
        return [(alert.at, alert.open) for look in looks for alert in self.look(look)]


def test_it_is_told_when_it_opens_and_when_it_is_over_and_never_in_between() -> None:
    assert Watch().run(GOOD, BAD, BAD, BAD, GOOD, GOOD) == [(120.0, True), (300.0, False)]


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
    watch.deaf = {"pager"}
    assert len(watch.look(BAD)) == 1
    assert len(watch.look(BAD)) == 1
    watch.deaf = set()
    assert [alert.open for alert in watch.look(BAD)] == [True]
    assert watch.look(BAD) == []
    watch.deaf = {"pager"}
    assert [alert.open for alert in watch.look(GOOD)] == [False]
    watch.deaf = set()
    assert [alert.open for alert in watch.look(GOOD)] == [False]
    assert watch.look(GOOD) == []


def test_one_who_cannot_be_told_keeps_nobody_else_from_hearing_of_it_once() -> None:
    watch = Watch()
    watch.people = ["mail", "pager"]
    watch.deaf = {"mail"}
    watch.run(BAD, BAD, BAD, GOOD, GOOD)
    assert [(who, opened) for who, _, opened in watch.heard] == [("pager", True), ("pager", False)]
    watch.heard.clear()
    watch.run(BAD)
    watch.deaf = set()
    watch.run(BAD, GOOD)
    assert [(who, opened) for who, _, opened in watch.heard] == [
        ("pager", True),
        ("mail", True),
        ("mail", False),
        ("pager", False),
    ]


def test_an_incident_that_nobody_heard_of_needs_no_end() -> None:
    watch = Watch()
    watch.deaf = {"pager"}
    watch.look(BAD)
    assert watch.look(GOOD) == []


def test_a_kind_that_nothing_is_said_of_stays_as_it_is() -> None:
    incidents = follow("orders", {}, {"lag": Symptom(BAD, "far")}, 1.0)
    assert follow("orders", incidents, {"down": Symptom(GOOD)}, 2.0)["lag"] == incidents["lag"]


def test_the_message_says_what_and_since_when() -> None:
    alert = Alert("orders", "down", "orders-down-1", True, 0.0, 90.0, "Nobody runs it.", {"Spark UI": "http://ui"})
    assert alert.subject == "orders: Nobody runs it."
    assert alert.text.splitlines() == [
        "Nobody runs it.",
        "For 1 min 30 s.",
        "Spark UI: http://ui",
        "Look: airflow streams history orders",
        "Incident: orders-down-1",
    ]
    over = Alert("orders", "down", "orders-down-1", False, 0.0, 90.0, "Nobody runs it.")
    assert over.subject == "orders is well again"
    assert over.text.splitlines()[0] == "It is over, after 1 min 30 s: Nobody runs it."

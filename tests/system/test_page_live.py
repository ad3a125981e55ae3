"""The page in Airflow's UI while things happen: an upgrade by its button, a hand-over, a roll-back, an incident.

All parts are real: Kafka, Spark, Airflow, Chromium. With `SCREENSHOTS=FOLDER` its pictures are kept there (`make
screenshots`).
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.runbook.by_hand import upgrade_run
from demo.environment import DemoEnvironment
from devstack.drivers import wait_for
from devstack.producer import Producer
from devstack.stack import LocalStack
from tests.integration.plugin.conftest import needs_page
from tests.support.browser import Person, person_at
from tests.support.control_root import new_log
from tests.support.example_site import example_site

UPGRADE, OPERATE, WATCH, REVIVE = "orders__upgrade", "orders__operate", "streams__watch", "streams__revive"
pytestmark = needs_page


class Watched:
    """The example stream under load, its Airflow, and a person who looks at it."""

    def __init__(self, stack: LocalStack, site: DemoEnvironment, person: Person) -> None:
        self.stack, self.site, self.person = stack, site, person
        self.log = new_log(site.spec.control, site.spec.name)

    def page(self) -> Page:
        """The page of the stream."""
        page = self.person.go(f"plugin/streams?stream={OPERATE}")
        expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()
        return page

    def act(self, page: Page, words: str, reason: str, answer: str = "Yes.") -> str:
        """Click a button, read what it will do, give a reason, click again; return the run that is shown then."""
        page.get_by_role("button", name=f"{words}…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text(answer, exact=True)).to_be_visible()
        picture(page, words.lower().replace(" ", "-"))
        page.keyboard.type(reason)
        dialog.get_by_role("button", name=words, exact=True).click()
        page.wait_for_url(lambda url: "/runs/" in url)
        runs = self.site.airflow.call("GET", f"dags/{OPERATE}/dagRuns")["dag_runs"]
        return str(max((each["run_after"], each["dag_run_id"]) for each in runs)[1])

    def beat(self) -> Heartbeat:
        holder = self.log.refresh().holder
        assert holder is not None
        found = self.log.heartbeat(holder)
        assert found is not None
        return found


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("page")
    with (
        example_site(folder, UPGRADE, OPERATE, WATCH, REVIVE) as (stack, site),
        Producer(site.brokers, "orders", 300),
        person_at(stack.airflow) as person,
    ):
        run = site.airflow.trigger(UPGRADE, {"version": "1"})
        assert site.airflow.wait_for_run(UPGRADE, run, 600) == "success"
        yield Watched(stack, site, person)


def test_an_upgrade_by_its_button_is_seen_step_by_step_until_the_new_release_holds(watched: Watched) -> None:
    file = watched.site.spec.source
    fields = yaml.safe_load(file.read_text())
    fields.update(version="2", arguments=[*fields["arguments"], "--vat"])
    file.write_text(yaml.safe_dump(fields, sort_keys=False))
    run = watched.act(watched.page(), "Upgrade", "with the value added tax", "It is not known here.")
    states = partial(watched.site.airflow.task_states, OPERATE, run)
    wait_for("the question", lambda: states()["confirm"] in ("awaiting_input", "deferred"), 600)
    watched.person.answer(OPERATE, run, "confirm", "Approve")

    page = watched.page()
    steps = page.get_by_role("region", name="What goes on now")
    expect(steps.get_by_text(re.compile("Release 2, driver .*rehearsing"))).to_be_visible()
    picture(page, "rehearsal")
    expect(page.get_by_role("region", name="History").get_by_text("handed over")).to_be_visible()
    seen = time.time()
    taken = [r for r in watched.log.records() if r.kind == Kind.ACQUIRED][-1]
    print(f"The page shows the hand-over {seen - taken.at:.1f} s after it.")
    assert watched.site.airflow.wait_for_run(UPGRADE, upgrade_run(run), 600) == "success"
    page.get_by_role("button", name="10 min").click()
    expect(page.locator("tr.sp-query td:last-child").first).to_have_text(re.compile(r"^[0-9.]+ s$"))  # the gap
    picture(page, "stream")
    page = watched.person.go("plugin/streams")
    expect(page.locator(".sp-list tbody tr")).to_have_count(1)
    picture(page, "streams")


def test_a_roll_back_by_its_button(watched: Watched) -> None:
    page = watched.page()
    expect(page.get_by_role("region", name="Can I roll back now?").get_by_text("Yes.", exact=True)).to_be_visible()
    run = watched.act(page, "Roll back", "it is slow")
    page = watched.page()
    expect(page.get_by_role("region", name="History").get_by_text("rolled back")).to_be_visible()
    assert watched.site.airflow.wait_for_run(OPERATE, run, 600) == "success"
    held = watched.log.refresh().holding_deployment
    assert held is not None
    assert held.release.version == "1"


def test_an_incident_opens_and_closes_on_the_open_page(watched: Watched) -> None:
    page, before = watched.page(), watched.log.refresh().holder
    beat = watched.beat()
    for pid in filter(None, (beat.jvm_pid, beat.pid)):
        os.kill(pid, signal.SIGKILL)
    expect(page.get_by_text(re.compile("^Incident: ")).first).to_be_visible()
    picture(page, "incident")
    expect(page.get_by_text(re.compile("^Incident: "))).to_have_count(0)
    assert watched.log.refresh().holder not in (None, before)


def test_the_stream_in_the_dark(watched: Watched) -> None:
    page = watched.page()
    page.emulate_media(color_scheme="dark")
    expect(page.get_by_role("region", name="Timeline").locator("svg").first).to_be_visible()
    picture(page, "stream-dark")

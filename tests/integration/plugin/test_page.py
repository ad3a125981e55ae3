"""The page in Airflow's own UI, in a real Chromium, by mouse and by keyboard. Only the drivers are played."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from airflow_stream_provider.plugin import BUNDLE
from devstack.drivers import wait_for
from tests.integration.plugin.conftest import TIMEOUT, Site, needs_page
from tests.support.browser import Person, person_at

ANNA, BERT = "anna.orders__operate", "bert.orders__operate"
AXE = BUNDLE.parents[1] / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = needs_page


@pytest.fixture
def admin(site: Site) -> Iterator[Person]:
    with person_at(site.airflow) as person:
        yield person


def complaints(page: Page) -> str:
    """What axe finds of the page itself, serious or worse: Airflow's frame around it is Airflow's own."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("async () => (await axe.run('.sp, [role=dialog]')).violations")
    worse = [each for each in found if each["impact"] in ("serious", "critical")]
    return "\n".join(f"{each['id']}: {node['html']}" for each in worse for node in each["nodes"])


def open_stream(person: Person, dag_id: str) -> Page:
    page = person.go(f"plugin/streams?stream={dag_id}")
    expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()
    return page


def test_axe_finds_nothing_serious_in_list_and_stream(admin: Person) -> None:
    page = admin.go("plugin/streams")
    expect(page.locator(".sp-list tbody tr")).to_have_count(2)
    assert complaints(page) == ""
    page = open_stream(admin, ANNA)
    expect(page.get_by_role("region", name="Can I roll back now?").get_by_text("Yes.", exact=True)).to_be_visible()
    expect(page.get_by_text("handed over").first).to_be_visible()
    assert complaints(page) == ""


def test_a_button_shows_what_will_happen_and_starts_the_run_that_does_it(site: Site, admin: Person) -> None:
    page = open_stream(admin, ANNA)
    page.get_by_role("button", name="Roll back…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Yes.", exact=True)).to_be_visible()
    assert complaints(page) == ""
    page.keyboard.type("it is slow")  # the cursor is in the reason
    page.keyboard.press("Tab")
    dialog.get_by_role("button", name="Roll back", exact=True).click()
    page.wait_for_url(lambda url: "/runs/" in url)
    run = page.url.partition("/runs/")[2].partition("/")[0]
    (made,) = (each for each in site.airflow.api.call("GET", f"dags/{ANNA}/dagRuns")["dag_runs"])
    assert run in (made["dag_run_id"], quote(made["dag_run_id"], safe=""))
    assert {name: made["conf"][name] for name in ("operation", "reason", "ask")} == {
        "operation": "roll-back",
        "reason": "it is slow",
        "ask": False,
    }


def test_a_refusal_is_said_and_its_button_stays_grey(admin: Person) -> None:
    page = open_stream(admin, BERT)
    page.get_by_role("button", name="Roll back…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("No.", exact=True)).to_be_visible()
    expect(dialog.get_by_role("button", name="Roll back", exact=True)).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_viewer_sees_his_stream_alone_and_no_buttons(site: Site) -> None:
    with person_at(site.airflow, "anna", site.password("anna"), dark=True) as anna:
        page = anna.go("plugin/streams")
        expect(page.locator(".sp-list tbody tr")).to_have_count(1)
        assert complaints(page) == ""
        page = open_stream(anna, ANNA)
        expect(page.get_by_text(f"you may not trigger DAG {ANNA}")).to_be_visible()
        expect(page.get_by_role("group", name="Acts")).to_have_count(0)
        assert complaints(page) == ""
        page = anna.go(f"plugin/streams?stream={BERT}")
        expect(page.get_by_text("There is no such stream").first).to_be_visible()


def test_the_keyboard_alone_leads_through_the_list_and_back(admin: Person) -> None:
    page = admin.go("plugin/streams")
    link = page.locator(".sp-list").get_by_role("link", name="orders").first
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()
    back = page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="Streams")
    back.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".sp-list")).to_be_visible()


def test_the_tab_of_a_dag_tells_its_story(admin: Person) -> None:
    page = admin.go(f"dags/{ANNA}/plugin/stream-dag")
    expect(page.get_by_role("heading", name="What happened to the stream")).to_be_visible()
    expect(page.get_by_text("handed over").first).to_be_visible()
    assert complaints(page) == ""
    page.get_by_role("link", name="Go to the stream").click()
    expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()


def test_a_page_that_stays_open_says_that_its_stream_cannot_be_read_and_then_that_it_can(
    site: Site, admin: Person
) -> None:
    page, away = open_stream(admin, BERT), site.control / "bert-away"
    (site.control / "bert").rename(away)
    try:
        expect(page.get_by_text(str(site.control / "bert")).first).to_be_visible()
    finally:
        away.rename(site.control / "bert")
    expect(page.get_by_text(str(site.control / "bert"))).to_have_count(0)


@pytest.mark.parametrize("path", ["streams", "stream", "series", "forecast", "story"])
def test_no_route_answers_without_a_log_in(site: Site, path: str) -> None:
    url = f"streams/api/{path}?dag_id={ANNA}&verb=stop"
    assert site.get(url).status_code == 401
    assert site.get("streams/page.js").status_code == 401
    wait_for("an answer", lambda: site.get(url, "anna").status_code == 200, TIMEOUT)
    assert "bert" not in json.dumps(site.get(url.replace(ANNA, BERT), "anna").json())

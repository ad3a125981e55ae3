"""The page of a real Airflow: its API server, its users, its database. Only the drivers of the streams are played."""

from __future__ import annotations

import json
import re

import pytest
import requests
from playwright.sync_api import expect

from airflow_stream_provider.planning.foreseen import Foreseen
from devstack.drivers import wait_for
from tests.integration.plugin.conftest import TIMEOUT, YAML, Site, needs_page
from tests.support.browser import asks_for, needs_chromium, person_at
from tests.support.story import NEW

PATHS = ("streams/", "streams/stream?dag_id=anna.orders__operate", "streams/page.css")


def test_nobody_sees_anything_without_a_log_in(site: Site) -> None:
    for path in PATHS:
        assert site.get(path).status_code == 401
        forged = requests.get(f"{site.airflow.url}/{path}", cookies={"_token": "forged"}, timeout=TIMEOUT)
        assert forged.status_code in (401, 403)


def test_a_user_sees_the_streams_whose_dag_he_may_read_and_no_other(site: Site) -> None:
    assert site.page("admin").count("orders") >= 2
    for user, other in (("anna", "bert"), ("bert", "anna")):
        said = site.get("streams/", user).text
        assert f"dag_id={user}.orders__operate" in said
        assert other not in said
        assert site.get(f"streams/stream?dag_id={user}.orders__operate", user).status_code == 200
        hidden = site.get(f"streams/stream?dag_id={other}.orders__operate", user)
        nothing = site.get("streams/stream?dag_id=none__operate", user)
        assert (hidden.status_code, hidden.text) == (404, nothing.text)
    assert NEW in site.page("anna")
    assert NEW not in site.page("bert")


@pytest.mark.parametrize("team", ["anna", "bert"])
def test_page_command_and_form_have_one_answer(site: Site, team: str) -> None:
    """Anna's stream can be rolled back, and bert's cannot: no release held before."""
    dag, api = f"{team}.orders__operate", site.airflow.api
    said = site.command("roll-back", "orders", "--dry-run", "--json", "--folder", str(site.dags / team))
    lines = Foreseen.from_json(json.loads(said.splitlines()[-1])["foreseen"]).lines
    assert "\n".join(lines) in site.page(team, dag)

    run = api.trigger(dag, {"operation": "roll-back", "reason": "to compare"})
    wait_for(
        "what the form says",
        lambda: api.task_states(dag, run).get("look") in ("success", "failed"),
        300.0,
    )
    if team == "anna":
        assert "Yes." in site.page(team, dag)
        pushed = api.call("GET", f"dags/{dag}/dagRuns/{run}/taskInstances/look/xcomEntries/return_value")
        assert pushed["value"]["lines"] == lines
    else:
        assert "No." in site.page(team, dag)
        assert lines[1].removeprefix("Refused: ") in api.task_log(dag, run, "look")


@pytest.mark.quick
@needs_chromium("the forms of NAME__operate and NAME__upgrade")
def test_a_form_is_submitted_with_the_mouse(site: Site) -> None:
    """Its button stayed grey; and a fence by the form went by a person's word, so that the cluster was not asked."""
    api, operate = site.airflow.api, "bert.orders__operate"
    with person_at(site.airflow) as person:
        # As far as the button: nothing runs here that could be upgraded.
        button = person.open_form("bert.orders__upgrade")
        person.fill_in({"version": "3"})
        expect(button).to_be_enabled()
        fence = person.trigger(operate, operation="fence", reason="it hangs")
    assert asks_for(api, fence, operation="fence", reason="it hangs"), fence["conf"]
    ids = operate, fence["dag_run_id"]
    wait_for("a look", lambda: api.task_states(*ids).get("look") in ("success", "failed"), 300.0)
    looked = f"dags/{operate}/dagRuns/{fence['dag_run_id']}/taskInstances/look/xcomEntries/return_value"
    found = api.call("GET", looked)["value"]
    assert (found["parts"], found["reason"], found["confirmed_by"]) == (["fence"], "it hangs", "")
    assert not any("by the word of" in line for line in found["lines"])


@pytest.mark.quick
@needs_page
def test_the_menu_leads_to_the_list_and_that_to_a_stream_with_its_answer(site: Site) -> None:
    """The rest of the page is in test_page.py."""
    with person_at(site.airflow) as person:
        page = person.go("")
        page.get_by_role("button", name="Browse").click()
        page.get_by_role("menuitem", name="Streams").click()
        rows = page.locator(".sp-list tbody tr")
        expect(rows).to_have_count(2)
        page.get_by_role("searchbox").fill(NEW)
        expect(rows).to_have_count(1)
        rows.get_by_role("link", name="orders").click()
        expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()
        assert page.url.endswith("stream=anna.orders__operate")
        answer = page.get_by_role("region", name="Can I roll back now?")
        expect(answer.get_by_text("Yes.", exact=True)).to_be_visible()


def test_the_page_shows_what_has_happened_and_leads_to_the_dags(site: Site) -> None:
    said = site.get("streams/stream?dag_id=anna.orders__operate", "anna").text
    assert "handed over" in said
    assert "a person wants it" in said
    for dag in ("anna.orders__operate", "anna.orders__upgrade", "anna.anna__watch"):
        assert f'href="../dags/{dag}"' in said
        assert site.airflow.api.call("GET", f"dags/{dag}")["dag_id"] == dag


def test_the_entry_in_the_menu_counts_from_the_base_of_the_ui(site: Site) -> None:
    plugins = site.airflow.api.call("GET", "plugins")["plugins"]
    mine = next(each for each in plugins if each["name"] == "airflow_stream_provider_page")
    addresses = [each["href"] for each in mine["external_views"]] + [each["bundle_url"] for each in mine["react_apps"]]
    assert addresses
    assert re.search(r"<base\s", site.get("", "admin").text)
    for address in addresses:
        assert site.get(address, "anna").status_code == 200


def test_a_control_root_that_is_away_is_a_sentence_and_the_rest_is_shown(site: Site) -> None:
    away = site.control / "bert-away"
    (site.control / "bert").rename(away)
    try:
        said = site.page("admin")
        assert NEW in said
        assert str(site.control / "bert") in said
        assert "That is not known." in site.page("bert", "bert.orders__operate")
    finally:
        away.rename(site.control / "bert")


@pytest.mark.system
def test_a_control_log_in_a_kafka_that_is_away_is_found_by_a_connection_of_the_database_and_blocks_nobody(
    site: Site,
) -> None:
    extra = json.dumps({"bootstrap.servers": "127.0.0.1:1"})
    site.airflow.api.call("POST", "connections", json={"connection_id": "gone", "conn_type": "kafka", "extra": extra})
    text = YAML.format("kafka://gone/streams").replace("orders", "far", 1) + "storage: file:///nowhere\n"
    (site.dags / "anna" / "far.yaml").write_text(text)
    site.airflow.api.wait_for_dag("anna.far__operate")
    said = site.page("anna")
    assert NEW in said
    assert "127.0.0.1:1" in said or "did not answer the API server" in said
    assert "cannot be read: it is not defined" not in said

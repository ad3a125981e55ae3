"""A person at Airflow's pages: a real Chromium without a screen, whose mouse clicks and whose keys are pressed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, Response, expect, sync_playwright

from devstack.airflow import Airflow
from devstack.airflow_api import AirflowApi

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Of a page on a machine with too much to do.
MILLISECONDS = 300_000.0


def needs_chromium(*left_out: str) -> pytest.MarkDecorator:
    """Skip a test where no Chromium is, and say what is left out."""
    without = f"There is no Chromium here (Debian's package `chromium`). Left out: {'; '.join(left_out)}."
    return pytest.mark.skipif(CHROMIUM is None, reason=without)


class Person:
    """Somebody who has logged in."""

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._url = url

    def go(self, path: str) -> Page:
        """Open a page of Airflow, and return it."""
        self._page.goto(f"{self._url}/{path}")
        return self._page

    def open_form(self, dag_id: str) -> Locator:
        """Open the form of a DAG, and return its button."""
        self._page.goto(f"{self._url}/dags/{dag_id}")
        self._page.get_by_test_id("trigger-dag-button").click()
        button = self._page.get_by_test_id("trigger-dag-submit")
        # A DAG that has run has a menu, which also offers what the last run was given.
        again = self._page.get_by_role("menuitem", name="Trigger", exact=True)
        again.or_(button).first.wait_for()
        if again.is_visible():
            again.click()
        button.wait_for()
        return button

    def fill_in(self, fields: Mapping[str, str | bool]) -> None:
        """Fill in fields of the form that is open: type a text, choose from a list, turn a switch."""
        for name, value in fields.items():
            self._fill_in(name, value)

    def trigger(self, dag_id: str, **fields: str | bool) -> dict[str, Any]:
        """Fill in the form of a DAG, click its button, and return the run as Airflow has made it."""
        button = self.open_form(dag_id)
        self.fill_in(fields)
        expect(button).to_be_enabled()

        def made(response: Response) -> bool:
            return response.request.method == "POST" and response.url.endswith(f"/dags/{dag_id}/dagRuns")

        with self._page.expect_response(made) as answer:
            button.click()
        assert answer.value.ok, answer.value.text()
        run: dict[str, Any] = answer.value.json()
        self._leave()
        return run

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Answer what a task asks."""
        self._page.goto(f"{self._url}/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/required_actions")

        def answered(response: Response) -> bool:
            return response.request.method == "PATCH" and response.url.endswith("/hitlDetails")

        with self._page.expect_response(answered) as answer:
            self._page.get_by_test_id(f"hitl-option-{option}").click()
        assert answer.value.ok, answer.value.text()
        self._leave()

    def _leave(self) -> None:
        """Look at nothing: a page that stays open asks the server a dozen questions every few seconds."""
        self._page.goto("about:blank")

    def _fill_in(self, name: str, value: str | bool) -> None:
        page = self._page
        if isinstance(value, bool):
            page.locator(f"[name=element_{name}]").locator("xpath=..").click()
            return
        field = page.locator(f"input#element_{name}, textarea#element_{name}")
        if field.count():
            field.click()
            page.keyboard.press("Control+A")
            page.keyboard.type(value)
            return
        page.locator(f"div#element_{name}").click()
        page.get_by_role("option", name=value, exact=True).click()


def asks_for(api: AirflowApi, run: Mapping[str, Any], **fields: str | bool) -> bool:
    """Whether a run was given these values of the form, and of all others what the form begins with."""
    params = api.call("GET", f"dags/{run['dag_id']}/details")["params"]
    unchanged = {name: param["value"] for name, param in params.items()}
    return {**unchanged, **run["conf"]} == {**unchanged, **fields}


@contextmanager
def person_at(airflow: Airflow, user: str = "", password: str = "", *, dark: bool = False) -> Iterator[Person]:
    """Log in to an Airflow, without a name as its admin; the browser is closed at the end.

    :param dark: whether the person's machine prefers dark colours.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            colours: Literal["dark", "light"] = "dark" if dark else "light"
            page = browser.new_page(
                viewport={"width": 1600, "height": 1200}, reduced_motion="reduce", color_scheme=colours
            )
            page.set_default_timeout(MILLISECONDS)
            expect.set_options(timeout=MILLISECONDS)
            page.goto(airflow.url)
            page.locator("input[name=username]").fill(user or airflow.user)
            page.locator("input[name=password]").fill(password or airflow.password)
            page.locator("button[type=submit]").click()
            page.wait_for_url(lambda url: "/login" not in url)
            yield Person(page, airflow.url)
        finally:
            browser.close()

"""What every process of Airflow imports for the sake of the page."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.plugin import entry

ROOT = Path(__file__).parents[3]

# Airflow's own plugin manager is what a process has that loads plugins.
LOADED = """
import sys
import airflow.plugins_manager
import airflow_stream_provider
before = set(sys.modules)
import airflow_stream_provider.plugin.entry
print(sorted(name for name in set(sys.modules) - before if not name.startswith("airflow_stream_provider.plugin")))
"""


def test_it_imports_nothing_but_itself(tmp_path: Path) -> None:
    environment = {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_airflow_finds_it() -> None:
    (found,) = (each for each in entry_points(group="airflow.plugins") if each.name == "stream_page")
    assert found.load() is entry.PagePlugin


def test_the_menu_has_the_page_or_without_its_script_the_plain_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (app,) = entry.PagePlugin.fastapi_apps
    monkeypatch.setattr(entry, "BUNDLE", tmp_path / "page.js")
    assert entry.react_apps() == []
    (view,) = entry.external_views()
    assert f"/{view['href']}" == f"{app['url_prefix']}/"  # below whatever path Airflow has
    (tmp_path / "page.js").touch()
    assert entry.external_views() == []
    assert {f"/{each['bundle_url']}" for each in entry.react_apps()} == {f"{app['url_prefix']}/page.js"}
    assert [each["destination"] for each in entry.react_apps()] == ["nav", "dag", "dag_run", "task"]


def test_the_application_is_built_once_and_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    calls: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        calls.append(scope)

    def make() -> Any:
        made.append(1)
        return app

    monkeypatch.setattr(entry, "_make", make)
    lazy = entry.LazyApp()
    assert made == []

    async def ask() -> None:
        await asyncio.gather(lazy({"n": 1}, None, None), lazy({"n": 2}, None, None))
        await lazy({"n": 3}, None, None)

    asyncio.run(ask())
    assert (made, [each["n"] for each in calls]) == ([1], [1, 2, 3])

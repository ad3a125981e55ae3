"""The plugin that adds the page to Airflow's UI. Every process of Airflow imports it, so it imports next to nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from airflow_stream_provider.plugin import BUNDLE

if TYPE_CHECKING:
    from fastapi import FastAPI

PREFIX = "/streams"
_MENU = {"destination": "nav", "category": "browse"}


def react_apps() -> list[dict[str, str]]:
    """Return the page and the tabs; none where their script was not built (`make page`).

    The script sets a component for each name.
    """
    if not BUNDLE.is_file():
        return []
    script = f"{PREFIX[1:]}/page.js"
    page = {"name": "Streams", "bundle_url": script, "url_route": "streams", **_MENU}
    tabs = {"dag": "stream-dag", "dag_run": "stream-run", "task": "stream-task"}
    return [
        page,
        *(
            {"name": "Stream", "bundle_url": script, "destination": where, "url_route": route}
            for where, route in tabs.items()
        ),
    ]


def external_views() -> list[dict[str, str]]:
    """Return the plain pages where there is no script: no `url_route`, as from Airflow's frames no link leads out."""
    return [] if react_apps() else [{"name": "Streams", "href": f"{PREFIX[1:]}/", **_MENU}]


class LazyApp:
    """The page as an ASGI application, which is built when it is first asked for: only the API server ever does."""

    def __init__(self) -> None:
        self._app: FastAPI | None = None
        self._building = asyncio.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        async with self._building:
            if self._app is None:
                # In a thread: what it imports takes a second, for which the API server answers others.
                self._app = await asyncio.to_thread(_make)
        await self._app(scope, receive, send)


def _make() -> FastAPI:
    from airflow_stream_provider.plugin.app import make_app

    return make_app()


class PagePlugin(AirflowPlugin):
    """Registers the page, and its entry in the menu."""

    name = "airflow_stream_provider_page"
    fastapi_apps = [{"app": LazyApp(), "url_prefix": PREFIX, "name": "Streams"}]  # noqa: RUF012 - Airflow's own form
    # All of these are relative to the base of the UI, which may be below a path.
    react_apps = react_apps()
    external_views = external_views()

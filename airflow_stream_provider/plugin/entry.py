"""The plugin that adds the page to Airflow's UI. Every process of Airflow imports it, so it imports next to nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from fastapi import FastAPI

PREFIX = "/streams"


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
    # A page of its own and no `url_route`: in Airflow's frames no link leads out into its UI. Relative to the base of
    # the UI, which may be below a path.
    external_views = [  # noqa: RUF012
        {"name": "Streams", "href": f"{PREFIX[1:]}/", "destination": "nav", "category": "browse"}
    ]

"""The page as a FastAPI application. Airflow does not authenticate its users: each route asks for the user itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, TypeVar

from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse, Response

from airflow_stream_provider.cli.status import StreamStatus, read_status
from airflow_stream_provider.control.bounded import ManyPlaces, NoAnswer
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.plugin.looks import Visible, answer, look_at_life, visible_streams
from airflow_stream_provider.plugin.templates import STYLE, render
from airflow_stream_provider.spec.fields import TopicAddress
from airflow_stream_provider.spec.stream import StreamSpec

T = TypeVar("T")

log = logging.getLogger(__name__)

# Seconds that are waited for the state of a stream, its life, and the answer, for which Kafka is asked.
STATUS_SECONDS = 5.0
LIFE_SECONDS = 10.0
ANSWER_SECONDS = 20.0

_HEADERS = {
    # No script, no frame, nothing from elsewhere: whatever a reason or a name holds, it is text.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def _visible(user: GetUserDep) -> list[Visible]:
    return visible_streams(user)


def _asked_for(user: GetUserDep, dag_id: str) -> Visible | None:
    return next((each for each in visible_streams(user, dag_id) if each.form == dag_id), None)


VisibleDep = Annotated[list[Visible], Depends(_visible)]
AskedForDep = Annotated[Visible | None, Depends(_asked_for)]


def make_app() -> FastAPI:
    """Return the application: a list of streams, a page for each one, and the style of both. All of it is read only."""
    # A redirect would be sent to every client, logged in or not, and to the host that it names.
    app = FastAPI(title="Streams", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    reads = ManyPlaces(_hangs)

    @app.get("/")
    async def streams(visible: VisibleDep) -> HTMLResponse:
        """List the streams."""
        await _reopen(reads, visible)
        found = await asyncio.gather(*(_status(reads, each) for each in visible))
        return _html("list", now=time.time(), streams=list(zip(visible, found, strict=True)))

    @app.get("/stream")
    async def stream(shown: AskedForDep) -> HTMLResponse:
        """Show one stream: its holder, whether it can be rolled back, and its life."""
        if shown is None:
            # Also where there is one that this user may not see.
            return _html("missing", 404)
        await _reopen(reads, [shown])
        status, life, back = await asyncio.gather(
            _status(reads, shown),
            _known(reads, shown, "life", look_at_life, LIFE_SECONDS),
            _known(reads, shown, "answer", answer, ANSWER_SECONDS),
        )
        return _html("stream", now=time.time(), shown=shown, status=status, life=life, answer=back)

    @app.get("/page.css", dependencies=[Depends(get_user)])
    async def style() -> Response:
        """Return the style of the pages."""
        return Response(STYLE, media_type="text/css", headers=_HEADERS)

    return app


async def _reopen(reads: ManyPlaces, visible: Iterable[Visible]) -> None:
    """Have the connections of control logs in Kafka read: this process lives for long, and they may have changed."""
    specs = [each.stream.spec for each in visible if each.stream.spec is not None]
    urls = {spec.control for spec in specs if TopicAddress.parse(spec.control) is not None}
    calls = (reads.call(url, url, partial(control_root, url, fresh=True), STATUS_SECONDS) for url in urls)
    # The read of a stream says what is wrong.
    await asyncio.gather(*calls, return_exceptions=True)


async def _status(reads: ManyPlaces, shown: Visible) -> StreamStatus:
    found = await _known(reads, shown, "status", read_status, STATUS_SECONDS)
    return StreamStatus(shown.stream.name, problem=found) if isinstance(found, str) else found


async def _known(
    reads: ManyPlaces, shown: Visible, what: str, read: Callable[[StreamSpec], T], seconds: float
) -> T | str:
    """Return what is read of a stream, or a sentence on why it is not known."""
    spec = shown.stream.spec
    if spec is None:
        return "It cannot be looked at: it is not known where its control log is."
    try:
        # Reads that wait for Kafka or a checkpoint do not keep others from reading control logs.
        place = spec.control, what
        return await reads.call(place, (shown.form, place), partial(read, spec), seconds)
    except StreamError as error:
        return str(error)
    except Exception as error:  # what lies in a control folder may break this in ways not thought of
        log.exception("The page cannot read the %s of %s.", what, shown.form)
        # Its text is for the log: it was not searched for secrets.
        return f"It cannot be read ({type(error).__name__}); the API server's log says more."


def _hangs(seconds: float) -> NoAnswer:
    return NoAnswer(
        f"It did not answer the API server within {seconds:.0f} s.",
        next_step="Load the page again: of many streams, some may only have had no turn. If that stays so, look at the "
        "mount, or at Kafka, from the API server; `airflow streams` asks from where it is run.",
    )


def _html(name: str, code: int = 200, **values: object) -> HTMLResponse:
    return HTMLResponse(render(name, **values), code, _HEADERS)

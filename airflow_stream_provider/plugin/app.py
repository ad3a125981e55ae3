"""The page's server: plain pages, and the API of the page in Airflow's UI. All of it only reads.

Airflow does not authenticate its users here: each route asks for the user itself. The page acts through Airflow's own
API, with its rights.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.plugin import BUNDLE, shapes
from airflow_stream_provider.plugin.board import Board
from airflow_stream_provider.plugin.looks import FORM, NOTHING, OpenStream, Visible, may_trigger, visible_streams
from airflow_stream_provider.plugin.templates import STYLE, render

# Seconds that are waited for what the control log says of a stream, for an answer, for which Kafka is asked, and for
# the gaps, for which checkpoints are read.
LOG_SECONDS, ANSWER_SECONDS, GAPS_SECONDS = 5.0, 20.0, 10.0

_SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
_HEADERS = {
    **_SAFE,
    # No script, no frame, nothing from elsewhere: whatever a reason or a name holds, it is text.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}


# An answer about one stream is for all who ask within so many seconds.
SAME_SECONDS, SAME_GAPS = 1.0, 20.0
MOST_SECONDS = 400 * 86_400.0

# By operation, the fields of the form that it takes besides the reason.
_ASKS: Mapping[Operation, tuple[str, ...]] = {
    Operation.FENCE: ("confirmed_by",),
    Operation.REDEPLOY: ("release",),
    Operation.REWIND: ("to", "query"),
    Operation.ADOPT: ("job", "confirmed_by"),
}
_VERBS = [{"verb": each.value, "about": each.description, "asks": _ASKS.get(each, ())} for each in Operation]
_BY_YAML = (
    "The YAML of the stream decides, which the API server does not read. The run says first what will happen, and asks "
    "for a yes."
)


def _visible(user: GetUserDep) -> list[Visible]:
    return visible_streams(user)


def _asked_for(user: GetUserDep, dag_id: str) -> Visible | None:
    return next((each for each in visible_streams(user, dag_id) if each.form == dag_id), None)


def _board(request: Request) -> Board:
    board: Board = request.app.state.board
    return board


VisibleDep = Annotated[list[Visible], Depends(_visible)]
# None: there is no such stream, or this user may not see it.
AskedForDep = Annotated[Visible | None, Depends(_asked_for)]
BoardDep = Annotated[Board, Depends(_board)]

router = APIRouter(prefix="/api")


@router.get("/streams")
async def streams(board: BoardDep, visible: VisibleDep, since: str = "") -> Response:
    """List the streams whose line has changed."""
    return _json(await board.rows(visible, since))


@router.get("/stream")
async def stream(board: BoardDep, shown: AskedForDep, user: GetUserDep) -> Response:
    """Say all that is known of one stream now."""
    if shown is None:
        return _missing()
    said, rows, may = await asyncio.gather(
        _details(board, shown), board.rows([shown], ""), asyncio.to_thread(may_trigger, user, shown.form)
    )
    dags = {"operate": shown.form, "upgrade": shown.upgrade, "watch": list(shown.watches)}
    return _json({"at": rows["at"], "row": rows["streams"][0], **said, "dags": dags, "verbs": _VERBS if may else []})


@router.get("/series")
async def series(board: BoardDep, shown: AskedForDep, seconds: float = 3600.0) -> Response:
    """Say what the time line of a stream draws; `seconds` 0: all that is kept."""
    if shown is None:
        return _missing()
    length = min(max(0.0, seconds), MOST_SECONDS) if seconds == seconds else 0.0
    read = partial(OpenStream.series, seconds=length)
    found = await board.known(shown, f"series:{length}", read, LOG_SECONDS, SAME_SECONDS)
    if isinstance(found, str):
        return _json({"detail": found}, 503)
    return _json({**found, "marks": _with_gaps(board, shown, found["marks"])})


@router.get("/forecast")
async def forecast(board: BoardDep, shown: AskedForDep, verb: str, confirmed_by: str = "") -> Response:
    """Say what an operation will do, as the form and the command do.

    :param confirmed_by: who has made sure that a driver is gone, for a fence.
    """
    if shown is None or verb not in set(Operation):
        return _missing()
    operation = Operation(verb)
    if operation.brings_up:
        return _json({"problem": _BY_YAML})
    read = partial(OpenStream.answer, operation=operation, confirmed_by=confirmed_by)
    found = await board.known(shown, f"answer:{verb}:{confirmed_by}", read, ANSWER_SECONDS)
    if isinstance(found, str):
        return _json({"problem": found})
    tone = {"Yes.": "good", "No.": "bad"}.get(found.word, "rest")
    return _json({"word": found.word, "lines": found.lines, "tone": tone})


@router.get("/story")
async def story(board: BoardDep, user: GetUserDep, dag_id: str, run_id: str = "") -> Response:
    """Say what a run of a stream's DAG did; without a run, what has happened to the stream."""
    form = f"{dag_id.rpartition('__')[0]}{FORM}"
    shown = await asyncio.to_thread(_asked_for, user, form)
    if shown is None:
        return _json({"stream": None, "events": [], "began": None, "ended": None})
    events = (await _details(board, shown))["events"][::-1]
    if run_id:
        events = _of_run(events, dag_id, run_id)
    times = [each["at"] for each in events if each["at"] is not None]
    began, ended = (times[0], times[-1]) if times else (None, None)
    return _json({"stream": form, "events": events, "began": began, "ended": ended})


async def _details(board: Board, shown: Visible) -> dict[str, Any]:
    """Return all that is known of one stream but its line in the list, or nothing of it and the reason."""
    found = await board.known(shown, "details", OpenStream.details, LOG_SECONDS, SAME_SECONDS)
    said: dict[str, Any] = {**NOTHING, "problem": found} if isinstance(found, str) else {"problem": "", **found}
    return {**said, "events": _with_gaps(board, shown, said["events"])}


def _with_gaps(board: Board, shown: Visible, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events with the gaps that are known; the board reads checkpoints for them in the background."""
    if not events:
        return []
    gaps = board.latest(shown, "gaps", OpenStream.gaps, GAPS_SECONDS, SAME_GAPS) or {}
    return [{**each, "gap": gaps.get(each["seq"], each["gap"])} for each in events]


def _of_run(events: list[dict[str, Any]], dag_id: str, run_id: str) -> list[dict[str, Any]]:
    """Return the events from the first that a run has written, to the last before another author wishes something."""
    # As `who` writes it: the task in one line, the run in the next.
    mine = [each["by"].startswith(f"{dag_id}/") and each["by"].endswith(f"\n{run_id}") for each in events]
    if True not in mine:
        return []
    first, last = mine.index(True), len(mine) - 1 - mine[::-1].index(True)
    after = next((at for at in range(last + 1, len(events)) if events[at]["what"] == "wanted"), len(events))
    return events[first:after]


def _json(found: Any, code: int = 200) -> Response:
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Response(text, code, _SAFE, "application/json")


def _missing() -> Response:
    return _json({"detail": "There is no such stream, or you may not read its DAG."}, 404)


def make_app() -> FastAPI:
    """Return the application: a list of streams, a page for each one, and the style of both. All of it is read only."""
    # A redirect would be sent to every client, logged in or not, and to the host that it names.
    app = FastAPI(title="Streams", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    board = app.state.board = Board()
    app.include_router(router)

    @app.get("/")
    async def streams(visible: VisibleDep) -> HTMLResponse:
        """List the streams."""
        await board.reopen(each.stream.spec for each in visible if each.stream.spec is not None)
        found = await asyncio.gather(*(_row(board, each) for each in visible))
        return _html("list", now=time.time(), streams=list(zip(visible, found, strict=True)))

    @app.get("/stream")
    async def stream(shown: AskedForDep) -> HTMLResponse:
        """Show one stream: its drivers, whether it can be rolled back, and its life."""
        if shown is None:
            # Also where there is one that this user may not see.
            return _html("missing", 404)
        await board.reopen([shown.stream.spec] if shown.stream.spec is not None else [])
        row, said, back = await asyncio.gather(
            _row(board, shown),
            _details(board, shown),
            board.known(shown, "answer", OpenStream.answer, ANSWER_SECONDS),
        )
        return _html("stream", now=time.time(), shown=shown, row=row, said=said, answer=back)

    @app.get("/page.css", dependencies=[Depends(get_user)])
    async def style() -> Response:
        """Return the style of the pages."""
        return Response(STYLE, media_type="text/css", headers=_HEADERS)

    @app.get("/page.js", dependencies=[Depends(get_user)])
    async def bundle() -> Response:
        """Return the script of the page in Airflow's UI."""
        if not BUNDLE.is_file():  # as while the package is replaced under a server that runs
            return Response(status_code=404)
        # By its date a browser asks whether it is still the same.
        return FileResponse(BUNDLE, media_type="text/javascript", headers={**_SAFE, "Cache-Control": "no-cache"})

    return app


async def _row(board: Board, shown: Visible) -> dict[str, Any]:
    """Return a stream's line in the list, read now: a plain page does not read it again."""
    found = await board.known(shown, "row", OpenStream.row, LOG_SECONDS)
    return shapes.unread(shown.stream.name, found) if isinstance(found, str) else found


def _html(name: str, code: int = 200, **values: object) -> HTMLResponse:
    return HTMLResponse(render(name, **values), code, _HEADERS)

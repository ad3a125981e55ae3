"""What the pages make of texts that somebody wrote."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from airflow_stream_provider.cli.status import Code, StreamStatus
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, OffsetRange, QueryHealth, QueryProgress
from airflow_stream_provider.monitoring.life import LifeEvent, What
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample
from airflow_stream_provider.plugin.looks import NOTHING, Answer, Visible
from airflow_stream_provider.plugin.shapes import events, queries, row, unread
from airflow_stream_provider.plugin.templates import render
from airflow_stream_provider.spec.shown import Shown

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</style></td></table><iframe src=//evil></iframe>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u202egnp.exe\x1b]52;c;eA\x1b\\",
]
ALLOWED = {
    *("html", "head", "meta", "title", "link", "body", "h1", "h2", "p", "a", "div", "span", "code", "strong"),
    *("table", "tr", "th", "td"),
}


class Tags(HTMLParser):
    """The tags, the addresses and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    ("status", "words", "colour"),
    [
        (StreamStatus("s", "empty", code=Code.WELL), "never deployed", "rest"),
        (StreamStatus("s", "stopped", code=Code.WELL), "stopped", "rest"),
        (StreamStatus("s", "down", code=Code.BAD), "down: nobody runs it", "bad"),
        (
            StreamStatus("s", "running", code=Code.WARN, silent_seconds=40.0),
            "running, last sign of life 40 s ago",
            "warn",
        ),
        (StreamStatus("s", "running", code=Code.WELL), "running", "good"),
    ],
)
def test_a_state_is_said_in_words_and_green_is_what_runs(status: StreamStatus, words: str, colour: str) -> None:
    line = row(status, (), None, 9.0)
    page = render("list", now=9.0, streams=[(Visible("s__operate", Shown("s", None, ""), ()), line)])
    assert f'<td class="{colour}">{words}</td>' in page


def everywhere(said: str) -> list[str]:
    """Return all pages, with one text in the place of everything that may be somebody's."""
    sample = LagSample(1.0, said, said, {said: QuerySample(5, 3.0)}, Health.PASS)
    event = LifeEvent(1, What.FAILED, 1.0, f"airflow:{said}/{said}/{said}", said, said, said, said, said)
    health = QueryHealth(said, 5.0, 2, said, said, 8, (OffsetRange(said, said, said),))
    progress = (QueryProgress(said, health=health), QueryProgress(said))
    line = row(StreamStatus(said, said, said, sample, said, holder=said, since=1.0), (), event, 9.0)
    shown = Visible(said, Shown(said, None, said), (said,))
    driver = {"id": said, "version": said, "role": "holder", "says": said, "sign_at": 1.0, "ui": ""}
    details = {
        "drivers": [driver],
        "queries": queries(Heartbeat(1, queries=progress), lost=False),
        "events": events([event]),
    }
    stream = {"now": 9.0, "shown": shown, "row": line}
    return [
        render("list", now=9.0, streams=[(shown, line)]),
        render("stream", **stream, said={**details, "problem": ""}, answer=Answer(said, (said, said))),
        render("stream", **stream, said={**NOTHING, "problem": said}, answer=said),
        render("missing"),
    ]


@pytest.mark.parametrize("said", HOSTILE)
def test_what_somebody_wrote_is_text_wherever_it_stands(said: str) -> None:
    for page in everywhere(said):
        found = Tags(page)
        assert found.tags <= ALLOWED
        assert found.attributes <= {"href", "class", "id", "rel", "lang", "charset", "name", "content", "colspan"}
        for link in found.links:
            assert link.startswith(("../dags/", "stream?dag_id=", "./", "page.css"))
        assert not {"\x1b", "\u202e"} & set(page)
    assert HOSTILE[0] in Tags(everywhere(HOSTILE[0])[0]).text


def test_the_list_without_a_stream_says_what_right_is_missing() -> None:
    assert "of which you may read the DAG" in render("list", now=9.0, streams=[])


@pytest.mark.parametrize(("problem", "holder"), [("It is away.", "not known"), ("", "nobody")])
def test_nobody_is_there_only_where_that_is_known(problem: str, holder: str) -> None:
    shown, said = Visible("a__operate", Shown("a", None, "")), {**NOTHING, "problem": problem}
    page = render("stream", now=9.0, shown=shown, row=unread("a", problem), said=said, answer="It is away.")
    assert f'<td colspan="3">{holder}</td>' in page
    assert ("nobody" in page) == (holder == "nobody")


def test_what_is_not_known_is_not_a_number() -> None:
    shown = Visible("a__operate", Shown("a", None, ""))
    page = render("list", now=9.0, streams=[(shown, unread("a", "It is away."))])
    assert ">unknown<" in page
    assert ">0" not in page


def test_moments_are_in_utc() -> None:
    shown = Visible("a__operate", Shown("a", None, ""))
    assert "1970-01-01 00:01:40 UTC" in render("list", now=100.0, streams=[(shown, unread("a"))])

"""`airflow streams advice` and `airflow streams trial`: what they show, ask and refuse, on a real control log."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest

from airflow_stream_provider.cli import tuning
from airflow_stream_provider.cli.run_here import Exit
from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.planning.trial import Advice
from airflow_stream_provider.tuning.proposal import Change, Proposal, Where
from airflow_stream_provider.tuning.verdict import Ratio, Tried
from tests.support.commands import Here
from tests.support.snapshots import RUNNING
from tests.support.story import write

LARGER = ["maxOffsetsPerTrigger=2000"]


def call(here: Here, command: Callable[[Namespace], Any], **more: Any) -> tuple[int, str]:
    """Call a command; return its exit code, and all that it has printed."""
    given = {"reason": "advice", "dry_run": False, "yes": True, "json": False, "verbose": False, "conf": None}
    where = {"name": "orders", "folder": str(here.folder), "option": LARGER, "persist": False}
    asked = Namespace(**{**given, **where, **more})
    with pytest.raises(SystemExit) as found:
        command(asked)
    said = here.said()
    return int(found.value.code or 0), said.out + said.err


def test_advice_is_shown_with_the_command_that_proves_it() -> None:
    option = {"maxoffsetspertrigger": "9000"}
    change = Change(Where.OPTION, "raise maxOffsetsPerTrigger from 1000 to 9000", options=option)
    found = Advice(
        (Proposal("small-batches", "q", "Every batch is full.", change, 3.1, "at least", "room"),),
        ("w: not enough measured.",),
        (Tried(Trial(options=option, predicted=3.1), "q", 9, Ratio(2.9, 2.5, 3.2, 20, 20), live=2.7),),
    )
    assert "\n".join(tuning.lines("orders", found)) == (
        "small-batches: q\n"
        "  Every batch is full.\n"
        "  Change (source option): raise maxOffsetsPerTrigger from 1000 to 9000, predicted at least 3.1 ×. It needs "
        "room.\n"
        "  Prove it: airflow streams trial orders --option maxoffsetspertrigger=9000 "
        '--reason "advice small-batches"\n'
        "q with maxoffsetspertrigger=9000: predicted 3.10 ×, tried 2.90 × (2.50 to 3.20), live 2.70 ×: closed. "
        "(record 9)\n"
        "w: not enough measured."
    )


def test_advice_for_a_stream_that_says_nothing_is_that_there_is_none(here: Here) -> None:
    assert call(here, tuning.advice) == (Exit.DONE, "Nothing is proposed for orders.\n")
    code, said = call(here, tuning.advice, json=True)
    assert (code, json.loads(said)) == (Exit.DONE, {"proposals": [], "missing": [], "tried": []})
    code, said = call(here, tuning.advice, folder="nowhere")
    assert code == Exit.UNKNOWN


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"option": ["subscribe=x"]}, "A trial does not change the option subscribe"),
        ({"option": None, "conf": ["spark.cores.max=4"]}, "counts when a driver starts"),
        ({"reason": None}, "There is no reason"),
        ({"yes": False}, "Nobody can be asked here"),
    ],
)
def test_a_trial_that_cannot_be_made_is_refused(here: Here, more: dict[str, Any], said: str) -> None:
    write(here.log, *RUNNING)
    code, found = call(here, tuning.trial, **more)
    assert code == Exit.REFUSED
    assert said in found


def test_a_trial_needs_a_holder(here: Here) -> None:
    code, found = call(here, tuning.trial, json=True)
    assert (code, json.loads(found)["outcome"]) == (Exit.REFUSED, "refused")
    assert "A trial runs beside a holder that is to stay" in found


def test_a_dry_run_says_what_a_trial_does_and_nothing_is_written(here: Here) -> None:
    write(here.log, *RUNNING)
    before = here.log.refresh().seq
    code, found = call(here, tuning.trial, dry_run=True, reason=None)
    assert code == Exit.DONE
    assert "measures maxoffsetspertrigger=2000 against what is set now" in found
    assert here.log.refresh().seq == before


def test_a_person_may_decline(here: Here, asked: list[Callable[[], str]]) -> None:
    write(here.log, *RUNNING)
    asked.append(lambda: "n")
    assert call(here, tuning.trial, yes=False)[0] == Exit.REFUSED

"""What a rehearsal runs, and of which query. Real ones are in tests/integration/runtime/test_hand_over.py."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.errors import CheckpointBroken, CheckpointError, RehearsalRefused
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.runtime import rehearsal as module
from airflow_stream_provider.runtime import rehearsing
from airflow_stream_provider.runtime.clone_runs import CloneRuns, TooSlow
from airflow_stream_provider.runtime.rehearsal import Rehearsal


class NotedRuns(CloneRuns):
    """Notes what it would let Spark run."""

    def __init__(self, gate: Any, policy: Policy) -> None:
        super().__init__(gate, policy)
        self.did: list[str] = []

    def plan(self, query: Any, clone: str) -> float:
        self.did.append(f"plan {query.label}")
        return 0.5

    def warm_sink(self, query: Any) -> None:
        self.did.append(f"sink {query.label}")


class Noted(Rehearsal):
    """As its runs."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._runs = runs = NotedRuns(self._gate, self._policy)
        self.did = runs.did

    def _warm(self, query: Any, clone: str) -> dict[str, Any]:
        self.did.append(f"warm {query.label}")
        assert rehearsing(), "a function of `foreachBatch` may ask"
        return {"batches": 3}

    def _once_more(self, query: Any) -> dict[str, Any]:
        self.did.append(f"again {query.label}")
        return {"again": {"batch": 3}}


@pytest.fixture
def cleaning(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the queries whose input Spark cleans; every checkpoint has a batch."""
    found: set[str] = set()
    monkeypatch.setattr(module, "describe", lambda query: {"name": query.label, "checkpoint": query.checkpoint})
    monkeypatch.setattr(module, "compare_queries", lambda *facts: ([], []))
    monkeypatch.setattr(module, "cleans_input", lambda query: query.label in found)
    monkeypatch.setattr(module, "check_jvm", lambda queries, own: None)
    monkeypatch.setattr(module, "check_sources", lambda writer: None)
    monkeypatch.setattr(module, "ask_kafka", lambda query: ())
    monkeypatch.setattr(module, "check_remembered", lambda query, accepted: [])
    monkeypatch.setattr(module, "surroundings", lambda queries, facts: {})
    monkeypatch.setattr(module, "executors", lambda queries: {})
    monkeypatch.setattr(checkpoints, "pinned_conf", lambda location: {})
    monkeypatch.setattr(checkpoints, "check_whole", lambda location: None)
    monkeypatch.setattr(checkpoints, "boundary", lambda location: SimpleNamespace(offsets=3))
    return found


def rehearsed(
    tmp_path: Path, names: Sequence[str], *, plans_only: bool = False, **policy: Any
) -> tuple[list[str], dict[str, Any]]:
    """Rehearse queries of these names; return what Spark would have run, and the summary."""
    spec = SimpleNamespace(trigger={}, options={})
    queries = [
        SimpleNamespace(label=name, checkpoint=str(tmp_path / name), writer=None, writer_spec=spec) for name in names
    ]
    gate: Any = SimpleNamespace(all_known=lambda: queries, skips=lambda: 0, may_come_late=lambda late: None)
    process: Any = SimpleNamespace(check_checkpoint=lambda location: None)
    others: Any = None
    made = Noted(gate, Policy.from_json(policy), "orders-1.0000000a", process, others)
    summary = made.run([], plans_only=plans_only, check=lambda: None, say=lambda message: None)
    return made.did, summary


def test_a_query_is_planned_and_warmed_up(tmp_path: Path, cleaning: set[str]) -> None:
    did, summary = rehearsed(tmp_path, ["lines"])
    assert did == ["plan lines", "warm lines", "sink lines", "again lines"]
    assert not rehearsing()
    assert summary["queries"] == {"lines": {"plan_seconds": 0.5, "batches": 3, "again": {"batch": 3}}}


def test_what_is_compared_includes_the_topics_that_a_checkpoint_has_offsets_of(
    tmp_path: Path, cleaning: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Any] = []
    monkeypatch.setattr(module, "ask_kafka", lambda query: ("orders",))
    monkeypatch.setattr(module, "compare_queries", lambda *facts: (compared.extend(facts), ([], []))[1])
    rehearsed(tmp_path, ["lines"])
    assert compared[-1] == {str(tmp_path / "lines"): ("orders",)}


def test_no_batch_runs_of_a_query_whose_input_spark_cleans(tmp_path: Path, cleaning: set[str]) -> None:
    cleaning.add("lines")
    did, summary = rehearsed(tmp_path, ["lines", "totals"])
    assert did == ["plan lines", "sink lines", "plan totals", "warm totals", "sink totals", "again totals"]
    assert summary["queries"]["lines"] == {"plan_seconds": 0.5}
    plan_only, formats = summary["notes"]
    assert "The query lines lets Spark clean its input (cleanSource): only its plan" in plan_only
    assert formats.startswith("In which formats the checkpoint of the query lines is written")


def test_spark_3_runs_a_batch_to_compare_state_schemas_but_none_of_a_query_whose_input_it_cleans(
    tmp_path: Path, cleaning: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.7")
    cleaning.add("lines")
    did, _ = rehearsed(tmp_path, ["lines", "totals"], rehearse_batches=0)
    assert [step for step in did if step.startswith("warm")] == ["warm totals"]


def test_no_batch_runs_where_only_plans_are_to_be_rehearsed(
    tmp_path: Path, cleaning: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("4.0.0", "3.5.7"):
        monkeypatch.setattr("pyspark.__version__", version)
        did, summary = rehearsed(tmp_path, ["lines", "totals"], plans_only=True)
        assert did == ["plan lines", "plan totals"]
        assert summary["notes"][0] == (
            "No driver holds the stream, and this release has run, or rehearsed, before: only its plans were rehearsed "
            "now."
        )
        assert ["not seen" in note for note in summary["notes"][1:]] == [True, True]


def test_what_is_only_compared_comes_last(tmp_path: Path, cleaning: set[str]) -> None:
    """It takes no time from what must be rehearsed."""
    did, _ = rehearsed(tmp_path, ["lines", "totals"])
    assert did[-2:] == ["again lines", "again totals"]


def once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cloned: Exception | None = None, ran: Any = (), left: float = 60.0
) -> dict[str, Any]:
    """What is made of the batch that is run once more, if the clone and Spark end like this."""
    nobody: Any = None
    made = Rehearsal(nobody, Policy(), "orders-1.0000000a", nobody, nobody)
    made._runs.deadline = time.monotonic() + left
    monkeypatch.setattr(made._runs, "new_id", lambda: "id")
    monkeypatch.setattr(made._runs, "batches", lambda query, clone, wanted: raise_or_return(ran))
    monkeypatch.setattr(checkpoints, "clone_state", lambda *given, **named: raise_or_return(cloned))
    query: Any = SimpleNamespace(label="lines", checkpoint=str(tmp_path / "lines"))
    return made._once_more(query)


def raise_or_return(found: Any) -> Any:
    if isinstance(found, Exception):
        raise found
    return found


BATCH = {"batchId": 7, "numInputRows": 30, "durationMs": {"triggerExecution": 1500}}


@pytest.mark.parametrize(
    "found",
    [
        {"cloned": checkpoints.StateTooLarge("It is too large.")},
        {"cloned": CheckpointError("Its files are purged.")},
        {"ran": TooSlow("Only 0 of 1 batches ran.")},
        {"ran": []},
        {"ran": [BATCH], "left": 5.0},
    ],
)
def test_a_batch_that_cannot_be_run_once_more_is_no_reason_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Any
) -> None:
    assert once_more(tmp_path, monkeypatch, **found) == {}


@pytest.mark.parametrize(
    ("slow", "ran"), [("plan", {}), ("warm", {"plan_seconds": 0.5, "batches": 1, "batch_rows": [30]})]
)
def test_a_rehearsal_whose_time_is_over_refuses_nothing_and_says_why(
    tmp_path: Path, cleaning: set[str], monkeypatch: pytest.MonkeyPatch, slow: str, ran: dict[str, Any]
) -> None:
    """On a machine that is busy a good release was refused: "Only 0 of 3 batches ran within 180 s"."""

    def too_slow(*given: Any) -> Any:
        raise TooSlow("Only 1 of 3 batches ran.", [BATCH] if slow == "warm" else [])

    where, what = (NotedRuns, "plan") if slow == "plan" else (Noted, "_warm")
    monkeypatch.setattr(where, what, too_slow)
    monkeypatch.setattr(module, "power", lambda query, seconds: "The driver took 95 s to come up.")
    monkeypatch.setattr(NotedRuns, "function", lambda runs, query: None)
    _, summary = rehearsed(tmp_path, ["lines"])
    found = summary["queries"]["lines"]
    assert found["doubt"] == "Only 1 of 3 batches ran. The driver took 95 s to come up."
    assert ran.items() <= found.items()


def test_a_batch_that_fails_once_more_refuses_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RehearsalRefused, match="fails on live data"):
        once_more(tmp_path, monkeypatch, ran=RehearsalRefused("The query lines fails on live data"))
    assert once_more(tmp_path, monkeypatch, ran=[BATCH])["again"]["seconds"] == 1.5


@pytest.mark.parametrize("looks", [1, 2])
def test_a_stream_that_runs_past_the_gate_is_looked_for_before_and_after(
    tmp_path: Path, cleaning: set[str], monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    seen: list[int] = []

    def look(queries: Sequence[Any], own: set[str]) -> None:
        seen.append(len(queries))
        if len(seen) == looks:
            raise RehearsalRefused("The streaming query copies runs in this driver already")

    monkeypatch.setattr(module, "check_jvm", look)
    with pytest.raises(RehearsalRefused, match="copies runs"):
        rehearsed(tmp_path, ["lines", "totals"])
    assert seen == [2] * looks


def test_what_the_running_release_has_started_late_is_waited_for_and_may_come_late(
    tmp_path: Path, cleaning: set[str]
) -> None:
    lines = SimpleNamespace(
        label="lines", checkpoint=str(tmp_path), writer=None, writer_spec=SimpleNamespace(trigger={}, options={})
    )
    may_come: list[dict[str, str]] = []
    gate: Any = SimpleNamespace(
        all_known=lambda: [lines],
        skips=lambda: 0,
        may_come_late=may_come.append,
        to_come=lambda late: [*late.values()],
    )
    process: Any = SimpleNamespace(check_checkpoint=lambda location: None)
    nobody: Any = None
    made = Noted(gate, Policy(changed_checkpoints=("/data/dropped",)), "orders-1.0000000a", process, nobody)
    former = [{"name": name, "checkpoint": f"/data/{name}"} for name in ("late", "dropped")]
    assert made.to_come(former) == "waiting for the script to start late, as the running release did late"
    assert made.to_come(former[1:]) == ""
    made.run(former, plans_only=False, check=lambda: None, say=lambda message: None)
    assert may_come == [{"/data/late": "late"}]


def test_another_file_system_than_before_is_refused_before_it_is_asked(tmp_path: Path, cleaning: set[str]) -> None:
    query = SimpleNamespace(
        label="lines", checkpoint=str(tmp_path), writer=None, writer_spec=SimpleNamespace(trigger={}, options={})
    )
    gate: Any = SimpleNamespace(all_known=lambda: [query], skips=lambda: 0, may_come_late=lambda late: None)
    asked: list[str] = []
    process: Any = SimpleNamespace(check_checkpoint=asked.append)
    nobody: Any = None
    made = Noted(gate, Policy(), "orders-1.0000000a", process, nobody)
    former = [{"name": "lines", "checkpoint": "hdfs://nn/lines"}]
    says = r"on file: .* instead of hdfs://nn .* Put the former URL back"
    with pytest.raises(RehearsalRefused, match=says):
        made.run(former, plans_only=False, check=lambda: None, say=lambda message: None)
    assert asked == made.did == []
    # Another driver has held since it was rehearsed.
    made.run([], plans_only=False, check=lambda: None, say=lambda message: None)
    with pytest.raises(RehearsalRefused, match=says):
        made.compare(former)


@pytest.mark.parametrize(
    ("batches", "why"), [(1, "only its last batch was run, once more"), (3, "no new records came in")]
)
def test_why_the_format_of_offsets_was_not_seen(batches: int, why: str) -> None:
    nobody: Any = None
    made = Rehearsal(nobody, Policy(), "orders-1.0000000a", nobody, nobody)
    made._batches = batches
    same = checkpoints.Formats(7, {"offsets/": 1})
    query: Any = SimpleNamespace(label="lines")
    made._compare_formats(query, same, same)
    (note,) = made._notes
    assert note.endswith(f"is written by this release was not seen in offsets/: {why}.")


@pytest.mark.parametrize(
    ("named", "accepted", "notes"),
    [((), False, []), (("",), False, []), ((": source", ": sink"), False, ["counted"]), ((": sink_log",), True, [])],
)
def test_only_its_own_word_accepts_that_a_sink_drops_batches(
    tmp_path: Path,
    cleaning: set[str],
    monkeypatch: pytest.MonkeyPatch,
    named: tuple[str, ...],
    accepted: bool,
    notes: list[str],
) -> None:
    asked: list[bool] = []

    def check(query: Any, accepted: bool) -> list[str]:
        asked.append(accepted)
        return ["remembered"]

    monkeypatch.setattr(module, "check_remembered", check)
    monkeypatch.setattr(module, "goes_on", lambda query: ["counted"])
    entries = tuple(f"file://{tmp_path}/lines{what}" for what in named)
    _, summary = rehearsed(tmp_path, ["lines"], changed_checkpoints=entries)
    assert (asked, summary["notes"]) == ([accepted], ["remembered", *notes])


def test_a_checkpoint_that_is_another_one_is_told_before_what_its_sink_remembers(
    tmp_path: Path, cleaning: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found on HDFS: a removed checkpoint was refused for the file sink's log, with the advice to take a new folder."""
    query = SimpleNamespace(
        label="lines", checkpoint=str(tmp_path), writer=None, writer_spec=SimpleNamespace(trigger={}, options={})
    )
    gate: Any = SimpleNamespace(all_known=lambda: [query], skips=lambda: 0, may_come_late=lambda late: None)
    process: Any = SimpleNamespace(check_checkpoint=lambda location: None)
    nobody: Any = None
    made = Noted(gate, Policy(), "orders-1.0000000a", process, nobody)
    remembers = RehearsalRefused("The log of the sink is ahead.")

    def refuses(*facts: Any) -> None:
        raise remembers

    def another() -> None:
        raise CheckpointBroken("It is not the one that the stream has run on.")

    monkeypatch.setattr(module, "check_remembered", refuses)
    with pytest.raises(RehearsalRefused, match="ahead"):
        made.run([], plans_only=False, check=lambda: None, say=lambda message: None)
    with pytest.raises(CheckpointBroken, match="not the one"):
        made.run([], plans_only=False, check=another, say=lambda message: None)
    assert made.did == []

"""What is stored and sent is frozen: tests/fixtures/format-1/README.md says what to do when a test here fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.clusters.spark_defaults import HDFS_DEFAULTS, defaults
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.formats import FORMAT_OF
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import CONDITIONS
from airflow_stream_provider.planning.lag_conditions import LAG_CONDITIONS
from airflow_stream_provider.planning.waits import Ended
from airflow_stream_provider.runtime import describe, rehearsal, spark_progress
from tests.support import format_story as story
from tests.support.simulation.memory_store import MemoryStore
from tests.support.simulation.one_seed import simulate
from tests.support.stored_forms import FORMAT_1, FORMS, WHAT_TO_DO, check_meaning, read, recorded, written

DOCS = "\n\n".join(
    path.read_text() for path in (FORMAT_1 / "README.md", Path(__file__).parents[3] / "docs" / "compatibility.md")
)
# By form, names of fields that were added later: readers of format 1 are right without them. Also names of what has a
# number of its own that has grown: `orders/state.jsonl` in `control_folder`, `index` in `control_topic`.
# A driver does not go by `ledger`, and a wait that does not know it is longer. The page draws what samples have. One
# that does not know `skip` reads the records and fails at them as before. One that does not know `trial` or `find`
# rehearses, and Airflow lets none of these come to hold.
_SAMPLES = frozenset({"longest_batch_seconds", "all_state_bytes", "trace", "runs_out"})
_POLICY = frozenset({"ledger", "trial", "skip", "find"})
# What runs out is foretold by them, and nothing decided about who holds.
_VITALS = frozenset({"vitals"})
ADDED: Mapping[str, frozenset[str]] = {
    "control_folder": _POLICY | _SAMPLES | _VITALS,
    "control_topic": _POLICY | _SAMPLES | _VITALS,
    "triggers": frozenset({"ledger"}),
    # Settings of Spark, which no reader looks at.
    "driver": frozenset(defaults({})) - frozenset(HDFS_DEFAULTS),
}
# Fields of records that were added later, with their types: no driver goes by the `environment` of a `standby`.
ADDED_TO_RECORDS = {("environment", "dict")}
# So many seeds that nothing is missing which plans and acts write.
SEEDS = 40
MADE_UP = ("release", "policy", "queries", "rehearsal")


def opened(said: Any, without: frozenset[str] = frozenset()) -> Any:
    """A stored value with the JSON objects in its texts opened, too; without checksums, and what has these names."""
    if isinstance(said, dict):
        return {name: opened(each, without) for name, each in said.items() if name not in without | {"sha256"}}
    if isinstance(said, list):
        return [opened(each, without) for each in said]
    return [[a, opened(b, without)] for a, b in objects_in(said)] if isinstance(said, str) and "{" in said else said


def objects_in(text: str) -> Iterator[tuple[str, Any]]:
    """The lines of a text: what comes before an object, and the object; None where there is none."""
    for line in text.split("\n"):
        before, brace, rest = line.partition("{")
        yield (before, json.loads(brace + rest)) if rest.endswith("}") else (line, None)


@pytest.mark.parametrize("name", FORMS)
def test_what_was_recorded_means_what_it_meant(name: str) -> None:
    check_meaning(recorded(name, ".means"), read(name, recorded(name)))


@pytest.mark.parametrize("name", FORMS)
def test_today_the_same_is_written(name: str) -> None:
    then, now = (opened(said, ADDED.get(name, frozenset())) for said in (recorded(name), written(name)))
    check_meaning(then, now, name)
    check_meaning(now, then, name)


# -- the tables of docs/compatibility.md, and of the README beside the recorded files ------------------------------


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without the heads of its columns."""
    text = re.search(rf"^#+ {re.escape(heading)}\n.*?(^\|.*?)\n\n", DOCS + "\n\n", re.M | re.S)
    assert text is not None, heading
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text[1].splitlines()[2:]]


def test_every_row_has_a_recorded_file_and_every_file_a_row() -> None:
    found = [row[0].lstrip("| ") for row in rows("What is compared between releases")]
    known = {row for form in FORMS.values() for row in form.rows}
    assert {next((each for each in known if row.startswith(each)), row) for row in found} == known
    files = {path.name for path in FORMAT_1.iterdir()} - {"README.md", "airflow_stream_runtime.zip"}
    assert files == {f"{name}{what}.json" for name in FORMS for what in ("", ".means")}


def records() -> list[dict[str, Any]]:
    files = recorded("control_folder")
    return [json.loads(text) for name, text in sorted(files.items()) if name.startswith("orders/log/")]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in records() if each["kind"] == kind]


def test_the_table_of_records_names_what_is_recorded() -> None:
    said = {re.findall(r"`(\w+)`", row[0])[0]: row[1] for row in rows("Records")}
    assert set(said) == set(FORMAT_OF)
    for kind, text in said.items():
        cells = re.sub(r"\([^()]*\)", "", text)  # values and code
        names = set(re.findall(r"`(\w+)`", cells))
        sure = set(re.findall(r"`(\w+)`", re.sub(r"\[[^]]*\]", "", cells)))
        of_all = {"kind", "by", "at", "nonce", "previous"}
        found = [set(each) - of_all for each in of_kind(kind)]
        assert names == set().union(*found), f"{kind}: {WHAT_TO_DO}"
        assert sure <= set.intersection(*found), f"{kind}: what may be missing is in brackets"


def test_all_kinds_conditions_and_words_are_recorded() -> None:
    """What is added later has the next format, or triggerers that are upgraded first; it is recorded with that."""
    assert {each["kind"] for each in records()} == {kind for kind, format in FORMAT_OF.items() if format == 1}
    conditions = [each[1].get("condition", {}).get("condition") for each in recorded("triggers")]
    assert {each.__name__ for each in (*CONDITIONS, *LAG_CONDITIONS)} | {"Answered", None} == set(conditions)
    assert [each["ended"] for each in recorded("events")] == [each.value for each in Ended]


# -- what plans and acts write -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated() -> list[dict[str, Any]]:
    """All records that real plans and acts have written in a simulated world, each form once."""
    found: dict[str, dict[str, Any]] = {}
    create = MemoryStore.create

    def noting(store: MemoryStore, seq: int, data: bytes) -> None:
        create(store, seq, data)
        made = json.loads(data)
        if made["by"].startswith(("airflow:", "driver:")):
            found.setdefault(json.dumps([made["kind"], sorted(types(made))]), made)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "create", noting)
        for seed in range(SEEDS):
            assert not simulate(seed).broken
    return list(found.values())


def types(made: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The fields of a record, and of where each query ended, each with the type of its value."""
    ends = [(f"ends.{name}", each) for end in made.get("ends", {}).values() for name, each in end.items()]
    shown = [(name, each) for name, each in (*made.items(), *ends) if name not in MADE_UP]
    return {(name, "number" if type(each) in (int, float) else type(each).__name__) for name, each in shown}


def test_records_of_tasks_watch_and_drivers(simulated: list[dict[str, Any]]) -> None:
    assert {each["kind"] for each in simulated} == set(FORMAT_OF) - {"ending"}, "adoptions are simulated elsewhere"
    for made in simulated:
        known = of_kind(made["kind"])
        others = types(made) - set().union(ADDED_TO_RECORDS, *map(types, known))
        assert not others, f"{others} is written in {made}. {WHAT_TO_DO}"
        missing = set.intersection(*map(set, known)) - {"previous", *made}
        assert not missing, f"{missing} is not written in {made}. {WHAT_TO_DO}"


def test_the_names_in_a_standby_are_those_that_drivers_write() -> None:
    summaries: list[dict[str, Any]] = [story.REHEARSED, story.IN_PART, story.WARMED]
    code = "".join(Path(str(each.__file__)).read_text() for each in (describe, rehearsal, spark_progress))
    assert not {name for each in (story.QUERY, *summaries) for name in each if f'"{name}"' not in code}


# -- what a reader does not know ---------------------------------------------------------------------------------------

# Objects whose keys are names, by the name of their field; of `OPAQUE` nothing is read inside, or all of it is needed.
MAPS = frozenset({"queries", "incidents", "acknowledged", "earlier", "subjects"})
OPAQUE = frozenset(
    {
        *("conf", "environment", "ends", "evidence", "committed", "offsets", "rewind", "spark", "trigger", "since"),
        *("source_options", "sink_options", "topic_ids", "counters", "moved", "ill", "not_reached", "changed", "runs"),
        *("headers", "lag", "watch"),
    }
)
NEXT_YEAR = {"of_next_year": {"a": [1]}}


def enriched(said: Any, *, named: bool = False) -> Any:
    """A stored value with an unknown field in every object that a reader may find it in."""
    if isinstance(said, list):
        return [enriched(each) for each in said]
    if isinstance(said, dict):
        inner = {n: e if n in OPAQUE else enriched(e, named=n in MAPS and isinstance(e, dict)) for n, e in said.items()}
        return inner if named else {**inner, **NEXT_YEAR}
    if isinstance(said, str) and said.endswith(("}", "}\n")):
        lines = (before if a is None else before + json.dumps(enriched(a)) for before, a in objects_in(said))
        return "\n".join(lines)
    return said


def enrich(name: str) -> Any:
    said = recorded(name)
    if name == "triggers":  # Airflow gives a trigger its arguments by their names
        mine = ("condition", "limits")
        return [[path, {n: enriched(e) if n in mine else e for n, e in given.items()}] for path, given in said]
    if name == "control_topic":  # its saved state and the index have formats of their own, and checksums
        return [{**each, "value": enriched(each["value"])} if each["key"] != "state" else each for each in said]
    if name in ("control_folder", "checkpoint"):
        whole = ("topics.json", "offsets/2")
        return {path: text if path.endswith(whole) else enriched(text) for path, text in said.items()}
    return enriched(said, named=name in ("xcom", "variable", "lag_event"))


@pytest.mark.parametrize("name", [name for name in FORMS if name != "driver"])
def test_an_unknown_field_is_ignored(name: str) -> None:
    said = enrich(name)
    assert "of_next_year" in json.dumps(said)
    check_meaning(recorded(name, ".means"), read(name, said))


def damaged(name: str, old: str, new: str) -> Any:
    text = json.dumps(recorded(name))
    assert old in text
    return json.loads(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("triggers", '"StandbyUp"', '"NextYear"', "is not a condition that this version knows"),
        ("triggers", '"grace_until"', '"grace"', "is not a condition that this version knows"),
        ("events", '"reached"', '"next_year"', "instead of a stream event"),
        ("events", '"counters"', '"numbers"', "instead of a stream event"),
        ("checkpoint", r"\"log\"", r"\"other\"", "does not name a stream"),
        ("control_folder", r"{\"stream\": \"orders\"", r"{\"name\": \"orders\"", "does not name the stream"),
        ("root_topic", r"{\"stream\": \"orders\"", r"{\"name\": \"orders\"", "does not name the stream"),
        ("control_folder", '"orders/id": "01', '"orders/id": "zz', "does not hold 32 hex digits"),
        ("control_folder", "000042.json", "000099.json", "[Rr]ecord"),
    ],
)
def test_what_cannot_be_understood_is_refused(name: str, old: str, new: str, says: str) -> None:
    with pytest.raises(StreamError, match=says):
        read(name, damaged(name, old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "changed"),
    [
        ("control_folder", r"{\"format\": 1, \"seq\"", r"{\"format\": 9, \"seq\"", {}),
        ("control_topic", r"{\"format\": 1, \"seq\"", r"{\"format\": 9, \"seq\"", {"saved": None}),
        ("control_topic", '"index": "1 ', '"index": "9 ', {"index": None}),
        ("control_folder", r"{\"version\": 1, \"at\"", r"{\"version\": 9, \"at\"", {"memory": None}),
        ("control_folder", r"{\"queries\": {\"b6", r"{\"inquiries\": {\"b6", {"topic ids": {}}),
        ("control_folder", r"\"watch\": {\"schedule\"", r"\"watch\": {\"next_year\"", {"declared": None}),
        ("shown", r"\"schedule\"", r"\"next_year\"", {"spec": None, "problem": None}),
    ],
)
def test_what_is_of_another_version_counts_as_not_there(name: str, old: str, new: str, changed: Any) -> None:
    found, means = read(name, damaged(name, old, new)), recorded(name, ".means")
    for part, value in changed.items():
        assert found.pop(part) != means.pop(part)
        assert value is None or recorded(name, ".means")[part] != value
    check_meaning(means, found)


def test_a_phase_and_a_health_that_no_reader_knows_are_shown_as_they_are() -> None:
    found = read("control_folder", damaged("control_folder", "retrying", "dreaming"))["heartbeats"]
    assert found[story.RESTARTED]["queries"][0]["health"]["state"] == "dreaming"
    found = read("control_folder", damaged("control_folder", "starting", "rising"))["heartbeats"]
    assert found[story.NEXT]["phase"] == "rising"


def test_an_unknown_kind_counts_and_an_illegal_record_is_named() -> None:
    log = ControlLog(MemoryStore(), "orders")
    for each in story.records():
        log.append(each, log.state.seq)
    before = log.state
    unknown = Record("suspended", {"until": 1.0}, "airflow:newer", 1.0).numbered(68, before.nonce)
    forged = Record("acquired", {"incarnation": story.NEXT, "request": "r-last", "epoch": 9}, "somebody", 1.0)
    after = fold([unknown, forged.numbered(69, unknown.nonce)], before)
    assert (after.seq, after.illegal_count, after.illegal[-1].seq) == (69, before.illegal_count + 1, 69)
    for same in ("holder", "epoch", "deployments", "incarnations", "requests", "wishes", "phase", "wish", "candidate"):
        assert getattr(after, same) == getattr(before, same)


def test_a_difference_is_found() -> None:
    files = recorded("control_folder")
    for old, new in ((r'"boundary"', r'"border"'), ('"epoch": 7', '"epoch": "7"'), ('"epoch": 7, ', "")):
        other = {name: text.replace(old, new) for name, text in files.items()}
        assert other != files
        assert opened(other) != opened(files)
        with pytest.raises((AssertionError, StreamError)):
            check_meaning(recorded("control_folder", ".means"), read("control_folder", other))

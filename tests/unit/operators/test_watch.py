"""A look of the watch, without Airflow's database and with a double of `look_at_all`: what it asks, keeps and returns.

What a look finds at a stream is tested in `monitoring`, the whole on a real Airflow in `tests/integration/airflow`.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout

from airflow_stream_provider.control import make_root
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.monitoring import folder_look
from airflow_stream_provider.monitoring.folder_look import FolderLook
from airflow_stream_provider.monitoring.recipients import takes_alerts
from airflow_stream_provider.operators import watched_files
from airflow_stream_provider.operators.watch import MAX_REVIVED, WatchStreamsOperator
from airflow_stream_provider.operators.watched_files import MAX_BROKEN
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.spec.watched import Watched

SPEC = (
    "name: {name}\napplication: apps/a.py\nversion: v1\ncluster: c\ncontrol: file:///d\n"
    f"notify: [{{{{call: {__name__}.page, arguments: {{{{who: {{name}}}}}}}}}}]\n"
)
TOLD: list[tuple[str, Any]] = []


@takes_alerts
def page(alert: Any, who: str) -> None:
    TOLD.append((who, alert))


class Airflow:
    """What a task sees of Airflow: XCom of earlier runs by key, and how many runs and tasks there are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.xcom: dict[str, Any] = {}
        self.pushed: dict[str, Any] = {}
        self.pulled: list[str] = []
        self.waiting = 0
        self.active: set[str] = set()
        self.queued: set[str] = set()
        self.beside: frozenset[str] = frozenset()
        self.minute = 28_000_000
        self.asked: list[Watched] = []
        self.memories: list[Mapping[str, Any]] = []
        self.revive: tuple[str, ...] = ()
        self.fails: BaseException | None = None
        self.others: list[str] = []
        self.problem = ""

    def look_at_all(
        self,
        watched: Sequence[Watched],
        memory: Mapping[str, Any],
        context: Mapping[str, Any],
        others: Sequence[StreamSpec],
    ) -> FolderLook:
        if self.fails is not None:
            raise self.fails
        self.asked, self.others = list(watched), [each.name for each in others]
        self.memories.append(memory)
        looks = {"looks": memory.get("looks", 0) + 1}
        return FolderLook(looks, self.revive, {"looked": len(watched)}, self.problem, self.beside)

    def runs(self, dag_id: str, states: Sequence[str]) -> int:
        by_state = {"running": self.active, "queued": self.queued}
        return sum(dag_id in by_state[state] for state in states)

    def pull(self, *, task_ids: str, key: str, include_prior_dates: bool, map_indexes: int) -> Any:
        assert (task_ids, include_prior_dates, map_indexes) == ("look", True, -1)
        self.pulled.append(key)
        return self.xcom.get(key)

    def push(self, key: str, value: Any) -> None:
        self.pushed[key] = self.xcom[key] = json.loads(json.dumps(value))

    def look(
        self, *, run_type: str = "scheduled", try_number: int = 1, dated: bool = True, streams: Any = None
    ) -> list[dict[str, Any]]:
        self.minute += 1
        self.pushed, self.pulled = {}, []
        at = datetime.fromtimestamp(60.0 * self.minute, UTC)
        ti = SimpleNamespace(
            dag_id="p.streams__watch",
            run_id=f"{run_type}__{self.minute}",
            task_id="look",
            try_number=try_number,
            xcom_pull=self.pull,
            xcom_push=self.push,
            get_ti_count=lambda dag_id, task_ids, states: self.waiting,
            get_dr_count=self.runs,
        )
        run = SimpleNamespace(run_type=run_type, run_after=at, logical_date=at if dated else None)
        task = WatchStreamsOperator(task_id="look", streams=streams or self.folder, prefix="p.")
        context: Any = {"ti": ti, "dag_run": run}
        return task.execute(context)

    @property
    def names(self) -> set[str]:
        return {each.spec.name for each in self.asked}

    def write(self, name: str, more: str = "", file: str = "") -> Path:
        path = self.folder / (file or f"{name}.yaml")
        path.write_text(SPEC.format(name=name) + more)
        return path


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Airflow:
    found = Airflow(tmp_path / "streams")
    found.folder.mkdir()
    found.write("orders")
    found.write("payments")
    monkeypatch.setattr(folder_look, "look_at_all", found.look_at_all)
    TOLD.clear()
    return found


def test_a_look_goes_on_from_the_one_before(airflow: Airflow) -> None:
    assert airflow.look() == []
    assert airflow.names == {"orders", "payments"}
    assert airflow.pushed["summary"] == {"looked": 2}
    airflow.look()
    assert airflow.memories == [{}, {"looks": 1}]


def test_the_streams_are_read_when_the_task_runs(airflow: Airflow) -> None:
    airflow.look()
    airflow.write("late")
    (airflow.folder / "orders.yaml").unlink()
    airflow.look()
    assert airflow.names == {"late", "payments"}


def test_a_stream_is_looked_at_when_it_is_due(airflow: Airflow) -> None:
    airflow.write("seldom", "watch: {schedule: 5m}\n")
    airflow.write("never", "watch: {schedule: null}\n")
    airflow.look()
    looks = []
    for _ in range(10):
        airflow.look()
        looks.append(airflow.names)
        assert airflow.names >= {"orders", "payments"}
        assert "never" not in airflow.names
        # Who is to be told of what the folder's streams need.
        assert airflow.names | {*airflow.others} == {"orders", "payments", "seldom"}
    assert sum("seldom" in names for names in looks) == 2


def test_who_triggers_a_look_gets_one_at_every_stream_and_moves_no_other(airflow: Airflow) -> None:
    airflow.write("seldom", "watch: {schedule: 1h}\n")
    airflow.look()
    at = airflow.pushed["memory"]["at"]
    airflow.look(run_type="manual")
    assert "seldom" in airflow.names
    assert airflow.pushed["memory"]["at"] == at


def test_streams_that_are_given_are_all_looked_at(airflow: Airflow) -> None:
    spec = load_spec(airflow.write("never", "watch: {schedule: null}\n"))
    airflow.look(streams=[spec])
    assert airflow.asked == [Watched(spec)]


def test_a_look_leaves_what_it_would_find_to_a_later_one(airflow: Airflow) -> None:
    airflow.look()
    airflow.waiting = 1
    with pytest.raises(AirflowSkipException, match="Another look waits"):
        airflow.look()
    assert airflow.pushed == {"memory": {**airflow.pushed["memory"], "skipped": True}}


def test_no_two_looks_in_a_row_are_left_to_later_ones(airflow: Airflow) -> None:
    """Where a task waits longer for its slot than a minute, another look always waits."""
    airflow.waiting = 3
    looked = 0
    for _ in range(8):
        with contextlib.suppress(AirflowSkipException):
            airflow.look()
            looked += 1
    assert looked == 4
    assert airflow.memories[-1] == {"looks": 3}, "what a look has left survives one that is skipped"
    # Nothing tells the next one that this one was skipped.
    airflow.look(run_type="manual", dated=False)
    airflow.look(run_type="manual", dated=False)


def test_nothing_is_looked_at_in_a_backfill(airflow: Airflow) -> None:
    with pytest.raises(AirflowSkipException, match="nothing of another time"):
        airflow.look(run_type="backfill")
    assert airflow.pushed == {}


def test_a_cleared_look_does_nothing(airflow: Airflow) -> None:
    with pytest.raises(AirflowSkipException, match="was cleared"):
        airflow.look(try_number=2)
    task = WatchStreamsOperator(task_id="look", streams=airflow.folder, retries=3)
    assert task.retries == 0, "a retry would be taken for a cleared look"


def test_a_look_without_a_logical_date_leaves_nothing_that_airflow_could_not_order(airflow: Airflow) -> None:
    airflow.look(run_type="manual", dated=False)
    assert set(airflow.pushed) == {"summary"}


def test_a_broken_file_is_watched_by_its_last_good_declaration(airflow: Airflow) -> None:
    airflow.write("orders", "lag: {max_records: 7}\n")
    airflow.look()
    assert set(airflow.pushed["declared"]) == {"orders.yaml", "payments.yaml"}
    (airflow.folder / "orders.yaml").write_text("[")
    airflow.look()
    assert "declared" not in airflow.pushed, "it has not changed"
    [orders] = [each for each in airflow.asked if each.spec.name == "orders"]
    assert orders.spec.lag.max_records == 7
    assert "orders.yaml, line 2: this is not YAML" in orders.problem


def test_the_declarations_are_kept_once_an_hour_and_pulled_only_when_needed(airflow: Airflow) -> None:
    airflow.look()
    airflow.look()
    assert airflow.pulled == ["memory"]
    assert set(airflow.pushed) == {"memory", "summary"}
    assert len(json.dumps(airflow.pushed["memory"])) < 300
    airflow.minute += 60
    airflow.look()
    assert "declared" in airflow.pushed


def test_what_is_to_be_brought_back_is_triggered(airflow: Airflow) -> None:
    airflow.revive = ("orders", "payments")
    airflow.active = {"p.payments__revive"}
    [trigger] = airflow.look()
    run = f"scheduled__{airflow.minute}"
    assert trigger == {
        "trigger_dag_id": "p.orders__revive",
        "trigger_run_id": f"watch__{run}",
        "conf": {"look": run},
    }
    assert "last_good" not in airflow.pushed


def test_a_run_that_waits_keeps_no_stream_from_what_can_be_done_now(airflow: Airflow) -> None:
    """Found by a review: for 25 minutes a run waited for a cluster, while a standby was up that nobody appointed."""
    airflow.revive, airflow.beside = ("orders", "payments"), frozenset({"orders"})
    airflow.active = {"p.orders__revive", "p.payments__revive"}
    assert [each["trigger_dag_id"] for each in airflow.look()] == ["p.orders__revive"]
    # One that waits for its turn looks anew when that comes.
    airflow.queued = {"p.orders__revive"}
    assert airflow.look() == []


def test_what_a_broken_stream_is_brought_back_with_is_in_xcom(airflow: Airflow) -> None:
    airflow.write("orders-eu", file="10-orders.yaml")
    airflow.look()
    (airflow.folder / "10-orders.yaml").write_text("[")
    airflow.revive = ("orders-eu",)
    [trigger] = airflow.look()
    assert trigger["trigger_dag_id"] == "p.10-orders__revive"
    assert airflow.pushed["last_good"]["10-orders"]["name"] == "orders-eu"


def test_a_look_triggers_only_so_many_and_the_next_ones_the_others(airflow: Airflow) -> None:
    names = [f"s{number:03}" for number in range(2 * MAX_REVIVED + 50)]
    for name in names:
        airflow.write(name)
    airflow.revive = tuple(names)
    triggered = [[each["trigger_dag_id"] for each in airflow.look()] for _ in range(3)]
    assert [len(each) for each in triggered] == [MAX_REVIVED] * 3
    # None of them stays active, as if each was skipped at once: all the same the others get their turn.
    assert {dag for each in triggered for dag in each} == {f"p.{name}__revive" for name in names}


def test_a_look_that_fails_is_told_to_everybody_once_and_once_that_it_works_again(airflow: Airflow) -> None:
    airflow.look()
    airflow.folder.rename(airflow.folder.with_name("gone"))
    for _ in range(3):
        with pytest.raises(SpecError, match="There is no folder"):
            airflow.look()
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    opened = TOLD[0][1]
    assert (opened.kind, opened.open, opened.stream) == ("watch", True, "streams")
    assert "There is no folder" in opened.text
    airflow.folder.with_name("gone").rename(airflow.folder)
    airflow.look()
    airflow.look()
    assert [(who, alert.open) for who, alert in sorted(TOLD[2:], key=lambda each: each[0])] == [
        ("orders", False),
        ("payments", False),
    ]
    assert {alert.incident for _, alert in TOLD} == {opened.incident}
    assert airflow.memories[-2:] == [{"looks": 1}, {"looks": 2}], "a look that failed has forgotten nothing"


def test_a_look_that_does_not_get_round_to_its_streams_is_told_once(airflow: Airflow) -> None:
    airflow.look()
    airflow.problem = "There is no time."
    for _ in range(3):
        airflow.look()
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    assert "There is no time." in TOLD[0][1].text


def test_a_folder_without_any_file_is_one_that_is_gone(airflow: Airflow) -> None:
    """An empty mount point must not be taken for a folder whose streams are not wanted any more."""
    airflow.look()
    full = airflow.folder.rename(airflow.folder.with_name("full"))
    airflow.folder.mkdir()
    for _ in range(2):
        with pytest.raises(SpecError, match=r"There is no YAML file in .*, where the last look knew 2"):
            airflow.look()
        assert "declared" not in airflow.pushed
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    airflow.folder.rmdir()
    full.rename(airflow.folder)
    airflow.look()
    assert [alert.open for _, alert in TOLD] == [True, True, False, False]


def test_a_new_folder_may_be_empty(airflow: Airflow) -> None:
    for name in ("orders", "payments"):
        (airflow.folder / f"{name}.yaml").unlink()
    assert airflow.look() == []


def test_a_look_that_is_cut_off_is_told_and_forgets_nothing(airflow: Airflow) -> None:
    airflow.look()
    airflow.fails = AirflowTaskTimeout("Timeout")
    with pytest.raises(AirflowTaskTimeout):
        airflow.look()
    assert airflow.pushed["memory"]["streams"] == {"looks": 1}
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    assert "AirflowTaskTimeout" in TOLD[0][1].text


def test_a_folder_that_hangs_is_told(airflow: Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow.look()
    free = threading.Event()
    monkeypatch.setattr(watched_files, "READ_SECONDS", 0.2)
    monkeypatch.setattr(watched_files, "read_folder", lambda folder: free.wait())
    with pytest.raises(SpecError, match="could not be read within"):
        airflow.look()
    free.set()
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]


def test_a_file_that_is_unknown_hides_no_look_that_fails(airflow: Airflow) -> None:
    (airflow.folder / "kustomization.yaml").write_text("resources: []")
    airflow.look()
    assert [alert.stream for _, alert in TOLD] == ["streams-files"] * 2
    airflow.fails = RuntimeError("x")
    with pytest.raises(RuntimeError):
        airflow.look()
    assert [alert.stream for _, alert in TOLD[2:]] == ["streams"] * 2
    airflow.fails = None
    airflow.look()
    assert [(alert.stream, alert.open) for _, alert in TOLD[4:]] == [("streams", False)] * 2
    assert len({alert.incident for _, alert in TOLD}) == 2


def test_many_files_that_cannot_be_used_are_one_incident(airflow: Airflow) -> None:
    for number in range(MAX_BROKEN + 1):
        airflow.write(f"s{number}", "versoin: v1\n")
    airflow.look()
    assert not any(each.problem for each in airflow.asked)
    assert f"{MAX_BROKEN + 1} streams have a YAML that cannot be used" in TOLD[0][1].text
    assert f"And {MAX_BROKEN + 1 - 5} more." in TOLD[0][1].text
    told = len(TOLD)
    # Neither a file that is mended nor one more that breaks makes the others seem to be well, or told of twice.
    (airflow.folder / "s0.yaml").unlink()
    airflow.look()
    (airflow.folder / "payments.yaml").write_text("[")
    airflow.look()
    assert [each.spec.name for each in airflow.asked if each.problem] == ["payments"]
    for number in range(1, MAX_BROKEN + 1):
        airflow.write(f"s{number}")
    assert len(TOLD) == told
    airflow.look()
    assert {alert.open for _, alert in TOLD[told:]} == {False}
    assert {alert.stream for _, alert in TOLD} == {"streams-files"}


def test_a_few_files_that_break_one_after_the_other_keep_their_own_incidents(airflow: Airflow) -> None:
    for numbers in (range(MAX_BROKEN), range(MAX_BROKEN, MAX_BROKEN + 2)):
        for number in numbers:
            airflow.write(f"s{number}", "versoin: v1\n")
        airflow.look()
    assert sum(bool(each.problem) for each in airflow.asked) == MAX_BROKEN + 2
    assert TOLD == []


def test_a_stream_that_moves_though_it_runs_is_told_until_that_is_settled(airflow: Airflow, tmp_path: Path) -> None:
    controls = {name: f"file://{tmp_path}/{name}" for name in ("a", "b")}
    for control in controls.values():
        make_root(control)

    def look(control: str) -> str:
        text = SPEC.format(name="orders").replace("file:///d", controls[control])
        (airflow.folder / "orders.yaml").write_text(text)
        airflow.look()
        [orders] = [each for each in airflow.asked if each.spec.name == "orders"]
        return orders.problem

    (tmp_path / "a" / "orders").mkdir()
    assert look("a") == ""
    (tmp_path / "a" / "orders" / "log").mkdir()
    (tmp_path / "a" / "orders" / "log" / f"{1:020}.json").write_text("[")
    for _ in range(2):
        assert "it was last watched under file://" in look("b")
    assert look("a") == ""
    assert look("b")
    (tmp_path / "b" / "orders").mkdir()
    assert look("b") == ""
    assert airflow.pushed["memory"]["moved"] == {}


def test_the_text_of_a_foreign_error_is_not_sent(airflow: Airflow) -> None:
    airflow.fails = RuntimeError("https://user:hunter2@example.org")
    with pytest.raises(RuntimeError):
        airflow.look()
    assert "RuntimeError; see the task's log." in TOLD[0][1].text
    assert not any("hunter2" in alert.text for _, alert in TOLD)


def test_a_file_of_whose_stream_nothing_is_known_is_told(airflow: Airflow) -> None:
    (airflow.folder / "new.yaml").write_text("[")
    airflow.look()
    airflow.look()
    assert airflow.names == {"orders", "payments"}
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    assert "nothing is known of them" in TOLD[0][1].text
    assert "new.yaml, line 2" in TOLD[0][1].text
    # One more is told, though the first is still there.
    (airflow.folder / "newer.yaml").write_text("[")
    for _ in range(2):
        airflow.look()
    assert [("newer.yaml" in alert.text, alert.open) for _, alert in TOLD[2:]] == [(True, True)] * 2


@pytest.mark.parametrize("left", [{"of": "another version"}, "text", {"at": "noon"}, {"streams": 7}, None])
def test_what_another_version_left_is_begun_anew(airflow: Airflow, left: Any) -> None:
    airflow.xcom = {"memory": left, "declared": left}
    (airflow.folder / "payments.yaml").write_text("[")
    airflow.look()
    assert airflow.memories == [{}]
    assert airflow.names == {"orders"}


def test_a_look_that_cannot_trigger_has_looked_all_the_same(airflow: Airflow) -> None:
    """Airflow's server may be away for a moment: nobody is told again by the next look of what this one has told."""
    airflow.look()
    airflow.revive = ("nobody",)
    with pytest.raises(KeyError):
        airflow.look()
    assert airflow.pushed["memory"]["streams"] == {"looks": 2}
    assert "KeyError" in TOLD[0][1].text


def test_a_stream_is_one_however_often_it_is_given(airflow: Airflow) -> None:
    spec: StreamSpec = load_spec(airflow.write("orders"))
    airflow.look(streams=[spec, spec])
    assert airflow.asked == [Watched(spec)]

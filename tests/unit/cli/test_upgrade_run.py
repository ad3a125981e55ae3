"""A run of the upgrade's DAG is started once and followed. Airflow's database is played here; see also
tests/integration/airflow/test_operate_upgrades.py, where it is a real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import DagRunAlreadyExists
from airflow.sdk.exceptions import ParamValidationError
from airflow.utils.state import DagRunState
from sqlalchemy.exc import IntegrityError, OperationalError

from airflow_stream_provider.cli import upgrade_run
from airflow_stream_provider.cli.run_here import Exit, Ran
from airflow_stream_provider.cli.upgrade_run import UpgradeRun
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.record import Record
from tests.support.control_root import log_of
from tests.support.story import (
    OLD,
    RUNNING,
    acquired,
    declared,
    failed,
    ready,
    record,
    released,
    requested,
    wanted,
)

DAG = "orders__upgrade"
RELEASE = "ab" * 32


def dag(dag_id: str = DAG, *, is_paused: bool = False, tags: tuple[str, ...] = ("stream", "orders")) -> Any:
    return SimpleNamespace(dag_id=dag_id, is_paused=is_paused, tags=[SimpleNamespace(name=tag) for tag in tags])


def run(run_id: str = "r", who: str = "anna@edge", **conf: str) -> Any:
    return SimpleNamespace(run_id=run_id, dag_id=DAG, triggering_user_name=who, run_type="manual", conf=conf)


class Database:
    """What Airflow's database has, as far as it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dags: list[Any], runs: list[Any]) -> None:
        self._answers = [dags, runs]
        self.error: Exception | None = None
        monkeypatch.setattr(upgrade_run, "create_session", self.session)

    @contextmanager
    def session(self) -> Iterator[Any]:
        if self.error is not None:
            raise self.error
        yield self

    def scalars(self, query: object) -> list[Any]:
        return self._answers.pop(0)

    def scalar(self, query: object) -> Any:
        """The number of the last run; or the run that somebody has started."""
        return 6 if "max(" in str(query) else next(iter(self._answers[-1]), None)


def found(
    monkeypatch: pytest.MonkeyPatch,
    dags: list[Any],
    *runs: Any,
    digits: str = "",
    reason: str = "why",
    seq: int = 4,
    **more: bool,
) -> Any:
    Database(monkeypatch, dags, list(runs))
    return UpgradeRun.of("orders", "anna@edge", reason, digits, seq=seq, **more)


def test_a_rewind_follows_its_own_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = run(release=RELEASE, reason="why", rewind="{}")
    assert found(monkeypatch, [dag()], mine, rewinds=True).run_id == "r"
    assert "under way already" in found(monkeypatch, [dag()], mine, digits=RELEASE).problem
    assert "under way already" in found(monkeypatch, [dag()], run(release=RELEASE, reason="why"), rewinds=True).problem
    assert "under way already" in found(monkeypatch, [dag()], mine, rewinds=True, reason="another").problem


def test_a_run_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, [dag()]) == UpgradeRun(DAG, "anna@edge", next_id="command__4_7")
    assert found(monkeypatch, [dag("shop.orders__upgrade")]).dag_id == "shop.orders__upgrade"
    others = [dag("my_orders__upgrade", tags=("stream", "my_orders")), dag()]
    assert found(monkeypatch, others).dag_id == DAG


def test_a_run_is_not_called_as_one_that_airflow_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    # `airflow db clean` keeps no run that was triggered, and a new database counts from 1: the number comes again.
    # Each run writes records, so the log is longer then.
    first, later = (found(monkeypatch, [dag()], seq=seq).next_id for seq in (4, 19))
    assert first != later


@pytest.mark.parametrize(
    ("dags", "says"),
    [
        ([], "Airflow knows no DAG orders__upgrade."),
        ([dag("my_orders__upgrade", tags=("stream", "my_orders"))], "Airflow knows no DAG orders__upgrade."),
        (
            [dag("a.orders__upgrade"), dag("b.orders__upgrade")],
            "Several DAGs upgrade a stream orders: a.orders__upgrade, ",
        ),
        ([dag(), dag("shop.orders__upgrade")], "Several DAGs upgrade a stream orders: orders__upgrade, shop."),
        (
            [dag(is_paused=True)],
            "is paused, and a run of it would wait. Unpause it with `airflow dags unpause orders__",
        ),
    ],
)
def test_none_can_be_started(monkeypatch: pytest.MonkeyPatch, dags: list[Any], says: str) -> None:
    assert says in found(monkeypatch, dags).problem


def test_ones_own_run_is_followed_and_anothers_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = run(reason="why", release="")
    assert found(monkeypatch, [dag(is_paused=True)], mine).run_id == "r"
    assert found(monkeypatch, [dag()], mine, reason="").run_id == "r", "a dry run has no reason yet"
    stored = run(reason="why", release=RELEASE)
    assert found(monkeypatch, [dag()], stored, digits="ABAB").run_id == "r"
    for other in (run(who="bob@edge", reason="why"), run(reason="other"), stored, run("x")):
        refused = found(monkeypatch, [dag()], other)
        assert refused.run_id == ""
        assert f"is under way already: run {other.run_id} of orders__upgrade, by {other.triggering_user_name}." in (
            refused.problem
        )
        assert "`airflow streams abort` as long as its release does not hold, else by marking that run as failed" in (
            refused.problem
        )
    assert found(monkeypatch, [dag()], mine, run("s")).problem
    assert found(monkeypatch, [dag()], stored, digits="cd").problem


def test_a_database_that_does_not_answer_is_said_without_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(monkeypatch, [], [])
    database.error = OperationalError("postgresql://airflow:hunter2@db", {}, Exception())
    with pytest.raises(StreamError, match=r"Airflow's database does not answer \(OperationalError\)") as caught:
        UpgradeRun.of("orders", "anna@edge", "why", "", seq=4)
    assert "hunter2" not in str(caught.value)


def started(monkeypatch: pytest.MonkeyPatch, error: Exception | None, *there: Any) -> str:
    """Start a run that Airflow answers like this, while these are there."""
    asked: dict[str, Any] = {}

    def trigger(dag_id: str, **given: Any) -> None:
        asked.update(given)
        if error is not None:
            raise error

    monkeypatch.setattr(upgrade_run, "trigger_dag", trigger)
    Database(monkeypatch, [], list(there))
    id = UpgradeRun(DAG, "anna@edge", next_id="command__7")._start({"reason": "why", "release": ""})
    assert (asked["run_id"], asked["conf"]) == ("command__7", {"reason": "why", "release": ""})
    return id


THERE: Any = SimpleNamespace(dag_id=DAG, run_id="command__7")


@pytest.mark.parametrize("conflict", [DagRunAlreadyExists(THERE), IntegrityError("insert", {}, Exception())])
def test_of_two_commands_at_one_moment_one_starts_the_run_and_both_follow_it(
    monkeypatch: pytest.MonkeyPatch, conflict: Exception
) -> None:
    assert started(monkeypatch, None) == "command__7"
    mine = run("command__7", reason="why", release="")
    assert started(monkeypatch, conflict, mine) == "command__7"
    for other in (run(reason="why", release="", who="bob@edge"), run(reason="other", release=""), run()):
        with pytest.raises(
            SpecError, match=r"Run command__7 of orders__upgrade was started at this moment, by .*@edge"
        ):
            started(monkeypatch, conflict, other)


@pytest.mark.parametrize(
    "error", [ParamValidationError("Invalid input for param reason"), ValueError("No manual runs.")]
)
def test_what_airflow_does_not_start_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    with pytest.raises(
        SpecError, match=f"Airflow does not start a run of orders__upgrade: {str(error).rstrip('.')}\\."
    ) as said:
        started(monkeypatch, error)
    assert said.value.next_step.startswith("Nothing was done.")


BY = f"airflow:{DAG}/r/submit"
THIRD = "orders-3-cccc"
THIRD_DRIVER = f"{THIRD}.0000000c"
BROUGHT = [
    *RUNNING,
    wanted("third", "stand_by", by=BY),
    declared(THIRD, "third", release={"version": "3", "hash": RELEASE}),
    record("standby", deployment=THIRD, incarnation=THIRD_DRIVER, queries=[{"name": "a"}], rehearsal={}),
]
HELD = [
    *BROUGHT,
    requested("c", THIRD_DRIVER),
    ready("c", THIRD_DRIVER),
    released(OLD, "c", THIRD_DRIVER),
    acquired(THIRD_DRIVER, "c", 2),
]


@pytest.fixture
def follow(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Follow a run whose looks are these, on a stream with these records; return how it ended, and what was said."""
    monkeypatch.setattr(upgrade_run, "_PACE_SECONDS", 0.0)

    def follow(records: list[Record], *looks: tuple[str, dict[str, str]], run_id: str = "r") -> tuple[Ran, list[str]]:
        control = f"file://{tmp_path}/{len(records)}"
        log_of(control, *records)
        hook = StreamHook("orders", control, "here")
        answers, said = iter(looks), list[str]()
        monkeypatch.setattr(UpgradeRun, "_look", lambda self, run: next(answers))
        monkeypatch.setattr(UpgradeRun, "_start", lambda self, conf: f"started with {conf}")
        ran = UpgradeRun(DAG, "anna@edge", run_id).carry_out(hook, {"x": 1}, lambda text, *v: said.append(text % v))
        return ran, said

    return follow


def test_it_is_followed_to_its_end_and_each_step_is_said_once(follow: Any) -> None:
    running = (DagRunState.RUNNING, {"check": "success", "submit": "up_for_retry"})
    ended = (DagRunState.SUCCESS, {"check": "success", "submit": "success"})
    ran, said = follow(HELD, running, running, ended)
    assert (ran.code, ran.result) == (
        Exit.DONE,
        {"run": "r", "dag": DAG, "state": "success", "deployment": THIRD},
    )
    assert said == [
        "Run r of orders__upgrade is under way.",
        "check: success.",
        "submit: up for retry.",
        "submit: success.",
    ]


def test_it_is_started_with_what_was_asked_for(follow: Any) -> None:
    _, said = follow(HELD, (DagRunState.SUCCESS, {}), run_id="")
    assert said == ["Run started with {'x': 1} of orders__upgrade was started."]


def test_a_run_that_fails_says_where_and_why(follow: Any) -> None:
    broken = [*BROUGHT, failed(THIRD_DRIVER)]
    ran, _ = follow(broken, (DagRunState.FAILED, {"check": "success", "submit": "failed", "soak": "upstream_failed"}))
    assert ran.code is Exit.FAILED
    assert ran.said.startswith(
        "Run r of orders__upgrade failed (submit). it broke: Boom. orders-1-aaaa (release 1) holds"
    )


def test_a_run_that_a_person_has_said_no_to_is_no_success(follow: Any) -> None:
    ran, _ = follow(BROUGHT, (DagRunState.SUCCESS, {"approve": "failed_on_purpose"}))
    assert ran.code is Exit.FAILED
    assert "ended, and its release has not come to hold." in ran.said
    unknown, _ = follow(RUNNING, (DagRunState.SUCCESS, {}))
    assert (unknown.code, unknown.result["deployment"]) == (Exit.FAILED, "")


def test_a_run_that_nobody_begins_is_not_waited_for_for_ever(follow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade_run, "QUEUED_SECONDS", 0.0)
    ran, _ = follow(RUNNING, (DagRunState.QUEUED, {}), (DagRunState.QUEUED, {}), (DagRunState.QUEUED, {}))
    assert ran.code is Exit.UNKNOWN
    assert ran.said.endswith("See that its scheduler runs.")

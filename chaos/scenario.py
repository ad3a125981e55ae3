"""Carry out one scenario: a person asks for upgrades and more while the nemesis is at work, and waits for the ends."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import requests

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.runbook.by_hand import upgrade_run
from chaos.faults import Nemesis
from chaos.journal import Journal
from chaos.plan import (
    ABORT,
    BAD,
    FENCE,
    GOOD,
    NEXT_IN_ROW,
    NOTHING,
    REDEPLOY,
    REFUSED,
    RESTART,
    ROLL_BACK,
    ROWS,
    START,
    STOP,
    TAKE_DOWN,
    TWO_AT_ONCE,
    Cell,
    Scenario,
)
from chaos.recovery import RECOVERY_SECONDS, Recovery
from chaos.upgrades import AFTERMATH_SECONDS, EITHER
from chaos.world import OPERATE_DAG, UPGRADE_DAG, World
from devstack.airflow_api import FINAL
from devstack.errors import StackError
from devstack.producer import Producer

POLL_SECONDS = 0.5
# A fault whose event has not come by then is skipped; with nothing to wait for, sooner.
EVENT_SECONDS, QUIET_SECONDS = 240.0, 20.0
# After the stream runs again: for tasks that are tried again, and soaks that last longer.
RUN_SECONDS = 600.0
WRONG = ("--totals-by", "customer", "country")  # another state: its rehearsal is refused
SLOW = ("--score",)
# The tasks of the form that do something.
TASKS_BY_HAND = (STOP, ROLL_BACK, ABORT, FENCE, START, RESTART, "upgrade")


@dataclass
class _Upgrade:
    kind: str
    dag: str
    run: str
    expected: str
    began: float
    holder: str = ""  # the deployment that held then
    ended: str = ""


class Person:
    """Asks for upgrades, as a person would, and waits for what comes of them.

    :param world: the world.
    :param nemesis: carries out the faults.
    :param journal: gets an entry for each upgrade, recovery and problem.
    :param say: called with a line for a person.
    :param producer: of the orders; a run in which one cannot be produced does not go on.
    """

    def __init__(
        self,
        world: World,
        nemesis: Nemesis,
        journal: Journal,
        say: Callable[[str], None],
        producer: Producer,
    ) -> None:
        self._world = world
        self._nemesis = nemesis
        self._journal = journal
        self._say = say
        self._producer = producer
        self._recovery = Recovery(nemesis, world.checkpoints, journal, say, self._taken_down)
        self._versions = 0
        # Runs of the form that stop the stream for good.
        self._stops: set[str] = set()
        # Those that have not ended when a scenario begins, or are asked for in it; and those of them that it waits for.
        self._upgrades: list[_Upgrade] = []
        self._awaited: list[_Upgrade] = []
        # From when to when runs lasted that may leave the stream without a holder; those that are over.
        self._down: list[tuple[float, float]] = []

    def deploy(self) -> None:
        """Deploy the first release, and wait until the stream runs; orders are produced once it does.

        :raises StackError: it does not.
        """
        self._upgrade(GOOD)
        self._awaited = list(self._upgrades)
        deadline = time.monotonic() + RUN_SECONDS
        while not self._all_ended():
            if time.monotonic() > deadline:
                raise StackError("The first release is not deployed.", next_step="Read the logs of Airflow's tasks.")
            self._pause()
            with self._nemesis.quiet() as events:
                holds = events.state.holder is not None
            if holds:  # no earlier: its soak would judge a backlog that grows while everything starts
                self._producer.start()
        if self._upgrades[-1].ended != "success":
            raise StackError("The first release was refused.", next_step="Read the logs of Airflow's tasks.")

    def carry_out(self, scenario: Scenario) -> set[Cell]:
        """Carry out a scenario to its end: all faults over, the stream running, the runs ended that it waits for.

        Of upgrades in a row only the last one comes so far: the next one begins when one ends, and so do its faults.

        :return: the cells that it has not reached.
        """
        self._say(f"{scenario.number}. {scenario.action}, with {len(scenario.faults)} faults")
        self._upgrades = [upgrade for upgrade in self._upgrades if not upgrade.ended]
        self._nemesis.arm(scenario.number, scenario.faults)
        if not scenario.faults:
            self._wait_for_calm()
        if scenario.action != NEXT_IN_ROW:
            self._ask(scenario.action)
        elif not self._upgrades:
            self._ask(GOOD)  # the others of the row have ended already
        in_row = scenario.action in (*ROWS, NEXT_IN_ROW)
        self._awaited = self._upgrades[:1] if in_row else list(self._upgrades)
        others_wait = in_row and len(self._upgrades) > 1
        self._meanwhile(scenario, others_wait)
        if not others_wait:
            self._recover()
        self._wait_for_runs()
        return self._nemesis.missed

    def finish(self) -> None:
        """Cancel the upgrades that still wait for their turn; wait for the one under way, and until the stream runs."""
        self._awaited = [upgrade for upgrade in self._upgrades if not upgrade.ended]
        for upgrade in self._awaited[1:]:
            try:
                self._cancel(upgrade)
            except (StackError, requests.RequestException) as error:
                # A fault may last, and the API server be busy: it is waited for like the one under way.
                self._say(f"    {upgrade.run} is not cancelled: {error}")
            else:
                self._end(upgrade, "cancelled")
        self._recover()
        self._wait_for_runs()

    def _ask(self, action: str) -> None:
        if action == NOTHING:
            return
        try:
            if action == TWO_AT_ONCE:
                # At once with a roll-back either may win, and the other says so.
                self._operate(ROLL_BACK, expected=EITHER)
                self._upgrade(action, expected=EITHER)
                return
            if action in (STOP, RESTART, REDEPLOY, ROLL_BACK, FENCE):
                self._operate(action)
                return
            if action == ABORT:
                self._upgrade(action, expected=EITHER)
                return
            wrong = {REFUSED: WRONG, BAD: SLOW}.get(action, ())
            for _ in range(ROWS.get(action, 1)):
                self._upgrade(action, *wrong, expected="failed" if wrong else "success")
        except requests.RequestException as error:
            # The run may be there or not: a person would look, and go on.
            self._say(f"    {action} could not be asked for: {type(error).__name__}")
        except StackError as error:
            self._journal.problem(f"{action} could not be asked for: {error}")
            self._say(f"    PROBLEM: {action} could not be asked for: {error}")

    def _wait_for_calm(self) -> None:
        """Wait until no earlier fault can be the reason when an upgrade ends otherwise than it should."""
        until = time.monotonic() + AFTERMATH_SECONDS
        while time.monotonic() < until:
            self._pause()

    def _meanwhile(self, scenario: Scenario, others_wait: bool) -> None:
        """Wait until no fault is left, and clear a task, or call the upgrade off, in the middle if that is asked for.

        :param others_wait: upgrades of the same row wait; what comes after this one's end is theirs.
        """
        began = quiet = time.monotonic()
        meddle_at = began + scenario.meddles_after if scenario.meddles_after else None
        while self._nemesis.waiting or self._nemesis.lasting or meddle_at:
            now = time.monotonic()
            if meddle_at and now > meddle_at:
                meddle_at = None
                self._meddle(scenario)
            ended = self._all_ended()
            quiet = quiet if self._recovery.look() and ended else now
            if others_wait and ended:
                self._nemesis.skip("the upgrade is over")
                return
            if now - quiet > QUIET_SECONDS or now - began > EVENT_SECONDS:
                self._nemesis.skip("the event has not come")
                meddle_at = None
            self._pause()

    def _recover(self) -> None:
        deadline = time.monotonic() + 2 * RECOVERY_SECONDS
        while not self._recovery.look() and time.monotonic() < deadline:
            self._all_ended()
            self._pause()

    def _wait_for_runs(self) -> None:
        deadline = time.monotonic() + RUN_SECONDS
        while not self._all_ended():
            if time.monotonic() > deadline:
                for upgrade in [each for each in self._awaited if not each.ended]:
                    self._give_up(upgrade)
                return
            self._pause()

    def _give_up(self, upgrade: _Upgrade) -> None:
        says = f"The run {upgrade.run} of {upgrade.dag} has not ended {RUN_SECONDS:.0f} s after the stream ran again"
        try:
            says += f": {self._world.api.task_states(upgrade.dag, upgrade.run)}"
            self._cancel(upgrade)
        except (StackError, requests.RequestException) as error:
            says += f"; {error}"
        self._journal.problem(f"{says}.")
        self._say(f"    PROBLEM: {says}.")
        self._end(upgrade, "given up")

    def _cancel(self, upgrade: _Upgrade) -> None:
        """Mark a run as failed, as a person does who cancels an upgrade."""
        self._world.api.call("PATCH", f"dags/{upgrade.dag}/dagRuns/{upgrade.run}", json={"state": "failed"})

    def _all_ended(self) -> bool:
        for upgrade in [each for each in self._awaited if not each.ended]:
            try:
                state = self._world.api.run_state(upgrade.dag, upgrade.run)
                if state not in FINAL:
                    continue
                states = self._world.api.task_states(upgrade.dag, upgrade.run)
            except (StackError, requests.RequestException):
                return False  # the API server, or its database, is busy
            self._end(upgrade, state, [task for task in TASKS_BY_HAND if states.get(task) == "success"])
        return all(upgrade.ended for upgrade in self._awaited) and not self._starts_what_is_stopped()

    def _starts_what_is_stopped(self) -> bool:
        """Start a stream that a run has stopped, which the watch leaves alone; return whether there is one."""
        with self._nemesis.quiet() as events:
            state = events.state
        if state.phase is not StreamPhase.STOPPED:
            return False
        by = state.wish.by if state.wish is not None else "nobody"
        if not any(by.startswith(f"airflow:{OPERATE_DAG}/{run}/") for run in self._stops):
            # A restart, or an upgrade, that is cut off leaves the stream down, and the watch brings it back.
            self._journal.problem(f"The stream rests though nobody has asked for that: it was stopped by {by}.")
        with contextlib.suppress(StackError, requests.RequestException):  # it is asked for again
            self._operate(START)
            self._awaited.append(self._upgrades[-1])
        return True

    def _operate(self, operation: str, expected: str = "success") -> None:
        """Ask for an operation by the form, as far as it can be done now."""
        with self._nemesis.quiet() as events:
            state = events.state
        held, more = state.holding_deployment, {}
        if operation == RESTART and held is not None:
            # Of another version than that of the YAML the stream is not restarted, but upgraded.
            self._let_the_yaml_ask_for(held.release.version)
        if operation == REDEPLOY:
            others = _held_before(state)
            if not others:
                self._upgrade(GOOD)
                return
            more = {"release": others[-1]}
        if operation == ROLL_BACK and not _held_before(state):
            expected = EITHER  # there is none to go back to
        conf = {"operation": operation, "reason": "chaos", "ask": False, **more}
        self._trigger(operation, OPERATE_DAG, conf, expected, held.id if held else "")

    def _let_the_yaml_ask_for(self, version: str) -> None:
        yaml = self._world.folder / "dags" / "streams" / "orders.yaml"
        new = yaml.with_suffix(".new")
        new.write_text(re.sub("(?m)^version: .*$", f'version: "{version}"', yaml.read_text()))
        new.replace(yaml)

    def _taken_down(self) -> Sequence[tuple[float, float]]:
        """When runs of the form lasted that may leave the stream without a holder."""
        return [*self._down, *((each.began, time.time()) for each in self._upgrades if self._takes_down(each))]

    @staticmethod
    def _takes_down(upgrade: _Upgrade) -> bool:
        return upgrade.kind in TAKE_DOWN and not upgrade.ended

    def _upgrade(self, kind: str, *arguments: str, expected: str = "success") -> None:
        self._versions += 1
        # Releases differ: every second one computes the VAT, too.
        more = ("--vat",) if self._versions % 2 == 0 else ()
        conf = {
            "version": str(self._versions),
            "arguments": [*self._world.site.spec.arguments, *more, *arguments],
        }
        self._trigger(kind, UPGRADE_DAG, conf, expected)

    def _trigger(self, kind: str, dag: str, conf: Mapping[str, object], expected: str, holder: str = "") -> None:
        began = time.time()
        run = self._world.api.trigger(dag, conf)
        self._upgrades.append(_Upgrade(kind, dag, run, expected, began, holder))
        if kind == STOP:
            self._stops.add(run)

    def _end(self, upgrade: _Upgrade, ended: str, did: Sequence[str] = ()) -> None:
        now = time.time()
        if self._takes_down(upgrade):
            self._down.append((upgrade.began, now))
        upgrade.ended = ended
        seconds = round(now - upgrade.began, 1)
        by_form = upgrade.dag == OPERATE_DAG
        more = {"did": list(did), "holder": upgrade.holder} if by_form else {}
        what = {"kind": upgrade.kind, "run": upgrade.run, "expected": upgrade.expected, "ended": ended}
        self._journal.note("operation" if by_form else "upgrade", **what, seconds=seconds, **more)
        self._say(f"    {upgrade.kind}: {ended} after {seconds:.0f} s (without faults: {upgrade.expected or 'either'})")
        if by_form and "upgrade" in did:
            # What it has started goes on by itself.
            started = _Upgrade(upgrade.kind, UPGRADE_DAG, upgrade_run(upgrade.run), upgrade.expected, upgrade.began)
            self._upgrades.append(started)
            self._awaited.append(started)

    def _meddle(self, scenario: Scenario) -> None:
        if scenario.clears:
            self._clear(scenario.clears)
            return
        with contextlib.suppress(StackError, requests.RequestException):  # then the upgrade goes on
            self._operate(ABORT, expected=EITHER)  # what it withdraws may be over first
            self._awaited.append(self._upgrades[-1])

    def _clear(self, task: str) -> None:
        upgrade = next((each for each in self._upgrades if not each.ended), None)
        says = "not cleared: its run has ended"
        try:
            if upgrade is not None and self._world.api.task_states(upgrade.dag, upgrade.run).get(task) is None:
                says = "not cleared: it has not begun"
            elif upgrade is not None:
                self._world.api.clear(upgrade.dag, upgrade.run, [task])
                says = "cleared"
        except (StackError, requests.RequestException) as error:
            says = f"not cleared: {error}"
        self._say(f"    {task} is {says}")

    def _pause(self) -> None:
        self._producer.check()
        time.sleep(POLL_SECONDS)


def _held_before(state: StreamState) -> list[str]:
    """Return the hashes of the good releases that have held, but for that which holds now, the last one last."""
    holds = sorted((i for i in state.incarnations.values() if i.epoch), key=lambda each: each.epoch)
    held = [state.deployments[deployment_of(each.id)].release for each in holds]
    now = state.holding_deployment
    return [
        release.hash
        for release in held
        if not set(SLOW) & set(release.arguments) and (now is None or release.hash != now.release.hash)
    ]

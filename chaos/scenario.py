"""Carry out one scenario: a person asks for upgrades while the nemesis is at work, and waits for what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import requests

from chaos.faults import Nemesis
from chaos.journal import Journal
from chaos.plan import BAD, GOOD, NEXT_IN_ROW, NOTHING, REFUSED, ROLL_BACK, ROWS, TWO_AT_ONCE, Cell, Scenario
from chaos.recovery import RECOVERY_SECONDS, Recovery
from chaos.upgrades import AFTERMATH_SECONDS, EITHER
from chaos.world import BACK_DAG, UPGRADE_DAG, World
from devstack.airflow_api import FINAL
from devstack.errors import StackError

POLL_SECONDS = 0.5
# A fault whose event has not come by then is skipped; with nothing to wait for, sooner.
EVENT_SECONDS, QUIET_SECONDS = 240.0, 20.0
# After the stream runs again: for tasks that are tried again, and soaks that last longer.
RUN_SECONDS = 600.0
WRONG = ("--totals-by", "customer", "country")  # another state: its rehearsal is refused
SLOW = ("--score",)


@dataclass
class _Upgrade:
    kind: str
    dag: str
    run: str
    expected: str
    began: float
    deployment: str = ""  # of a roll-back: what shall not hold any more
    ended: str = ""


class Person:
    """Asks for upgrades, as a person would, and waits for what comes of them.

    :param world: the world.
    :param nemesis: carries out the faults.
    :param journal: gets an entry for each upgrade, recovery and problem.
    :param say: called with a line for a person.
    :param check: called again and again; raises when the run cannot go on.
    """

    def __init__(
        self,
        world: World,
        nemesis: Nemesis,
        journal: Journal,
        say: Callable[[str], None],
        check: Callable[[], None],
    ) -> None:
        self._world = world
        self._nemesis = nemesis
        self._journal = journal
        self._say = say
        self._check = check
        self._recovery = Recovery(nemesis, world.checkpoints, journal, say)
        self._versions = 0
        # Those that have not ended when a scenario begins, or are asked for in it; and those of them that it waits for.
        self._upgrades: list[_Upgrade] = []
        self._awaited: list[_Upgrade] = []

    def deploy(self) -> None:
        """Deploy the first release, and wait until the stream runs.

        :raises StackError: it does not.
        """
        self._upgrade(GOOD)
        self._awaited = list(self._upgrades)
        deadline = time.monotonic() + RUN_SECONDS
        while not self._all_ended():
            if time.monotonic() > deadline:
                raise StackError("The first release is not deployed.", next_step="Read the logs of Airflow's tasks.")
            self._pause()
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
            if action in (ROLL_BACK, TWO_AT_ONCE):
                # At once with a roll-back either may win, and the other says so.
                expected = EITHER if action == TWO_AT_ONCE else "success"
                with self._nemesis.quiet() as events:
                    deployment = events.state.holding_deployment
                if deployment is not None:
                    self._trigger(action, BACK_DAG, {"deployment": deployment.id}, expected, deployment.id)
                if action == TWO_AT_ONCE:
                    self._upgrade(action, expected=expected)
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
        """Wait until no fault is left, and clear a task in the middle if that is asked for.

        :param others_wait: upgrades of the same row wait; what comes after this one's end is theirs.
        """
        began = quiet = time.monotonic()
        clear_at = began + scenario.clear_after if scenario.clears else None
        while self._nemesis.waiting or self._nemesis.lasting or clear_at:
            now = time.monotonic()
            if clear_at and now > clear_at:
                clear_at = None
                self._clear(scenario.clears)
            ended = self._all_ended()
            quiet = quiet if self._recovery.look() and ended else now
            if others_wait and ended:
                self._nemesis.skip("the upgrade is over")
                return
            if now - quiet > QUIET_SECONDS or now - began > EVENT_SECONDS:
                self._nemesis.skip("the event has not come")
                clear_at = None
            self._pause()

    def _recover(self) -> None:
        deadline = time.monotonic() + 2 * RECOVERY_SECONDS
        while not self._recovery.look() and time.monotonic() < deadline:
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
            self._end(upgrade, state, skipped="skipped" in states.values())
        return all(upgrade.ended for upgrade in self._awaited)

    def _upgrade(self, kind: str, *arguments: str, expected: str = "success") -> None:
        self._versions += 1
        # Releases differ: every second one computes the VAT, too.
        more = ("--vat",) if self._versions % 2 == 0 else ()
        conf = {
            "version": str(self._versions),
            "arguments": [*self._world.site.spec.arguments, *more, *arguments],
        }
        self._trigger(kind, UPGRADE_DAG, conf, expected)

    def _trigger(self, kind: str, dag: str, conf: Mapping[str, object], expected: str, deployment: str = "") -> None:
        began = time.time()
        run = self._world.api.trigger(dag, conf)
        self._upgrades.append(_Upgrade(kind, dag, run, expected, began, deployment))

    def _end(self, upgrade: _Upgrade, ended: str, *, skipped: bool = False) -> None:
        upgrade.ended = ended
        seconds = round(time.time() - upgrade.began, 1)
        back = {"deployment": upgrade.deployment, "skipped": skipped} if upgrade.deployment else {}
        what = {"kind": upgrade.kind, "run": upgrade.run, "expected": upgrade.expected, "ended": ended}
        self._journal.note("upgrade", **what, seconds=seconds, **back)
        self._say(f"    {upgrade.kind}: {ended} after {seconds:.0f} s (without faults: {upgrade.expected or 'either'})")

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
        self._check()
        time.sleep(POLL_SECONDS)

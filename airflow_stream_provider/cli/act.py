"""The commands of `airflow streams` that act: each says first what will happen, and asks; see docs/operate.md."""

from __future__ import annotations

import json
import sys
import time
import traceback
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.utils.cli import suppress_logs_and_warning

from airflow_stream_provider.cli.commands import declared_stream, given_by, read_connections
from airflow_stream_provider.cli.run_here import Exit, Progress, Ran, adopt_here, nobody_to_ask, run_here
from airflow_stream_provider.hooks.compare import compare
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.rewind import at
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.texts import plain
from airflow_stream_provider.monitoring.delivery import tell_outcome
from airflow_stream_provider.operators.adopt import AdoptOperator, operator_of
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.release import ReleaseOperator
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation, check_job, check_person, check_reason
from airflow_stream_provider.planning.outcome import told
from airflow_stream_provider.planning.rewind import moment
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import command_identity
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow_stream_provider.cli.upgrade_run import UpgradeRun
    from airflow_stream_provider.hooks.stream import StreamHook

# Where nothing is left to do by the control log, but a command that was cut off may have left drivers that still exit.
_TO_CONFIRM = (Operation.STOP, Operation.RETIRE)
_REPEAT = "What was asked for so far goes on. Give the same command again: it goes on from where the stream is then."


@suppress_logs_and_warning
def act(args: Namespace, operation: str) -> NoReturn:
    """Say what an operation will do, ask, do it, and exit; see `Operation`."""
    read_connections()
    try:
        command = _Command.of(Operation(operation), args)
    except SpecError as error:
        _end(args, "refused", Exit.REFUSED, str(error), None, {})
    except StreamError as error:
        _end(args, "unknown", Exit.UNKNOWN, str(error), None, {})
    try:
        command.run()
    except SpecError as error:
        command.end(*(("failed", Exit.FAILED) if command.begun else ("refused", Exit.REFUSED)), str(error))
    except StreamError as error:
        command.end("unknown", Exit.UNKNOWN, f"{error} {_REPEAT}" if command.begun else str(error))
    except (KeyboardInterrupt, EOFError):  # Ctrl-C, or Ctrl-D in place of an answer
        command.end("unknown", Exit.UNKNOWN, f"Interrupted. {_REPEAT if command.begun else 'Nothing was done.'}")
    except Exception as error:  # noqa: BLE001 - Python's own code for it is 1, which says that nothing was touched
        traceback.print_exc()
        said = f"This command itself has failed ({type(error).__name__})."
        command.end("unknown", Exit.UNKNOWN, f"{said} {_REPEAT if command.begun else 'Nothing was done.'}")


@dataclass
class _Command:
    """One command, and what has become of it."""

    args: Namespace
    operation: Operation
    spec: StreamSpec
    reason: str
    confirmed_by: str
    job: str
    to: float | None = None
    foreseen: Foreseen | None = None
    begun: bool = False
    run_of_airflow: UpgradeRun | None = None
    results: dict[Operation, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, operation: Operation, args: Namespace) -> _Command:
        """Return what was given.

        :raises SpecError: it cannot be used.
        """
        # A person who only asks what would happen has no reason yet.
        reason = "" if args.dry_run and args.reason is None else check_reason(args.reason or "")
        confirmed_by = check_person(getattr(args, "confirmed_by", None) or "")
        job = check_job(getattr(args, "job", None) or "")
        # Once: two hours ago is the same time also when a person thinks about it.
        to = moment(args.to, time.time()) if getattr(args, "to", None) else None
        return cls(args, operation, declared_stream(args), reason, confirmed_by, job, to)

    def look(self) -> Foreseen:
        """Look at the stream, and say what will happen."""
        hook = self._operator(Operation.STOP, "").hook
        wanted = RequestedRelease.of(self.spec) if self.operation.brings_up else None
        found = look_ahead(
            hook,
            self.operation,
            wanted,
            digits=self._digits,
            confirmed_by=self.confirmed_by,
            job=self.job,
            to=self.to,
            query=getattr(self.args, "query", None) or "",
        )
        if self.operation in (Operation.UPGRADE, Operation.REDEPLOY, Operation.REWIND):
            run = self.run_of_airflow = self._upgrade_run(_seq(hook))
            if run.run_id:
                found = found.followed(Operation.UPGRADE, f"Run {run.run_id} of {run.dag_id}")
            elif found.parts and run.problem:
                found = found.refuse(run.problem)
        self.foreseen = found
        return found

    def run(self) -> NoReturn:
        """Say what will happen, ask, do it, say what was done, and exit."""
        foreseen = self.look()
        if foreseen.refused:
            self.end("refused", Exit.REFUSED, foreseen.refused)
        if self.args.dry_run:
            self.end("dry run", Exit.DONE, "Dry run: nothing was done.")
        ends_it = self.operation is not Operation.ADOPT or self.job or self.confirmed_by
        if not ends_it and nobody_to_ask(self.args.json):
            self.end("refused", Exit.REFUSED, "Nobody can be asked here to end the old job: give its id with --job.")
        if foreseen.parts and not self.args.yes:
            foreseen = self._confirmed(foreseen)
        elif foreseen.parts and not self.args.json:
            # Standard output has the result alone.
            print(plain(str(foreseen)), file=sys.stderr, flush=True)
        self.begun = True
        seq = _seq(self._operator(Operation.STOP, "").hook)
        ran = self._carry_out(foreseen)
        if ran.code is Exit.FAILED:
            self._tell(ran.said, to_act=True)
            self.end("failed", Exit.FAILED, ran.said)
        if ran.code is Exit.UNKNOWN:
            self.end("unknown", Exit.UNKNOWN, f"{ran.said} {_REPEAT}")
        if ran.code is Exit.REFUSED:
            self.end("declined", Exit.REFUSED, ran.said)
        if ran.snapshot is None or ran.snapshot.state.seq == seq:
            self.end("done already", Exit.DONE, foreseen.done or ran.said or "It was done already.")
        holder = ran.snapshot.holder_sentence
        line = ran.said or told(foreseen, self.reason, self.results, holder)
        self._tell(line, to_act=False)
        self.end("done", Exit.DONE, line)

    def _tell(self, line: str, *, to_act: bool) -> None:
        """Tell people how a roll-back ended, as the task of a run does."""
        if self.operation is not Operation.ROLL_BACK:
            return
        missed = tell_outcome(self.spec, f"command-{time.time():.0f}", line, {}, to_act=to_act)
        if missed:
            print(f"Not told, as the log says why: {', '.join(missed)}.", file=sys.stderr)

    def end(self, outcome: str, code: Exit, said: str) -> NoReturn:
        """Print how it ended, and exit."""
        _end(self.args, outcome, code, said, self.foreseen, self.results)

    def _confirmed(self, foreseen: Foreseen) -> Foreseen:
        """Return the plan that a person has approved; show it anew when it has changed meanwhile."""
        if nobody_to_ask(self.args.json):
            self.end("refused", Exit.REFUSED, "Nobody can be asked here. See it with --dry-run; then give --yes.")
        while True:
            print(plain(str(foreseen)), flush=True)
            if input("Do this? [y/N] ").strip().lower() not in ("y", "yes"):
                self.end("declined", Exit.REFUSED, "Nothing was done.")
            again = self.look()
            if again.refused:
                self.end("refused", Exit.REFUSED, again.refused)
            if again.same_as(foreseen):
                return again
            print("The stream has changed meanwhile.")
            foreseen = again

    def _carry_out(self, foreseen: Foreseen) -> Ran:
        """Do it."""
        who, now, operation = given_by(), time.time(), self.operation
        if Operation.UPGRADE in foreseen.parts:
            return self._by_run(foreseen)
        if not foreseen.parts and operation not in _TO_CONFIRM:
            return Ran(Exit.DONE, {})
        operator = self._operator(operation, foreseen.deployment)
        if isinstance(operator, ReleaseOperator):
            operator.hook.create()
        state = operator.hook.observe(history=False).state
        identity = command_identity(state, who, operation, now)
        if not foreseen.parts and not identity.continued:
            return Ran(Exit.DONE, {})
        if isinstance(operator, AdoptOperator):
            wish = state.wishes.get(identity.wish)
            if wish is not None and (wish.job, wish.confirmed_by) != (self.job, self.confirmed_by):
                # It was to end the job in another way.
                identity = command_identity(StreamState(), who, operation, now)
            ran = adopt_here(operator, identity, foreseen.reads_again)
        else:
            ran = run_here(operator, identity)
        if ran.code is Exit.DONE:
            self.results[operation] = ran.result
        return ran

    def _by_run(self, foreseen: Foreseen) -> Ran:
        """Let a run of ``NAME__upgrade`` do it."""
        assert self.run_of_airflow is not None, "it was looked for before"
        conf = {"release": foreseen.release, "reason": self.reason}
        if foreseen.rewind is not None:
            conf["rewind"] = json.dumps(foreseen.rewind)
        ran = self.run_of_airflow.carry_out(self._operator(Operation.STOP, "").hook, conf, Progress().info)
        ran = self._unless_another_release(ran, foreseen)
        self.results[Operation.UPGRADE] = ran.result
        return ran

    def _unless_another_release(self, ran: Ran, foreseen: Foreseen) -> Ran:
        """Return that it has failed if the run has deployed something else than this command asks for.

        One that had begun before goes by the YAML of then, and a new one by the form that Airflow has read last.
        """
        if ran.code is not Exit.DONE or ran.snapshot is None:
            return ran
        if self.operation is Operation.UPGRADE:
            as_asked = compare(self.spec).same
        elif self.operation is Operation.REWIND:
            return self._unless_another_time(ran, ran.snapshot)
        else:
            as_asked = ran.snapshot.state.deployments[ran.result["deployment"]].release.hash == foreseen.release
        if as_asked:
            return ran
        said = f"Run {ran.result['run']} has deployed something else than was asked for. {ran.snapshot.holder_sentence}"
        return replace(ran, code=Exit.FAILED, said=f"{said} Give the command again.")

    def _unless_another_time(self, ran: Ran, snapshot: Snapshot) -> Ran:
        """Return that it has failed if the run has gone back to another time, or with other queries.

        One that had begun before is found by its person and reason alone.
        """
        found = snapshot.state.deployments[ran.result["deployment"]].rewind
        query = getattr(self.args, "query", None)
        if found is not None and found.to == self.to and (not query or set(found.queries) == {query}):
            return ran
        what = f"{', '.join(found.queries)} read again since {at(found.to)}" if found else "nothing was read again"
        said = f"Run {ran.result['run']} has done something else than was asked for: {what}."
        again = "If that does not do, give the command again: what was read again already is read once more then."
        return replace(ran, code=Exit.FAILED, said=f"{said} {again}")

    @property
    def _digits(self) -> str:
        return getattr(self.args, "release", None) or ""

    def _upgrade_run(self, seq: int) -> UpgradeRun:
        # Imported here: the other commands need nothing of Airflow's database.
        from airflow_stream_provider.cli.upgrade_run import UpgradeRun

        rewinds = self.operation is Operation.REWIND
        return UpgradeRun.of(self.spec.name, given_by(), self.reason, self._digits, seq=seq, rewinds=rewinds)

    def _operator(self, part: Operation, deployment: str) -> StreamOperator:
        return operator_of(
            part,
            task_id=part.value,
            stream=self.spec,
            reason=self.reason,
            deployment=deployment,
            confirmed_by=self.confirmed_by,
            job=self.job,
        )


def _seq(hook: StreamHook) -> int:
    """Return the number of the last record of the control log; 0: there is none."""
    return hook.control_log.refresh().seq if hook.exists() else 0


def _end(
    args: Namespace,
    outcome: str,
    code: Exit,
    said: str,
    foreseen: Foreseen | None,
    results: Mapping[Operation, Mapping[str, Any]],
) -> NoReturn:
    if args.json:
        whole = {
            "stream": args.name,
            "outcome": outcome.replace(" ", "_"),
            "said": said,
            "foreseen": foreseen.to_json() if foreseen else None,
            "results": {part.value: dict(result) for part, result in results.items()},
        }
        print(json.dumps(whole))
        sys.exit(code)
    if foreseen is not None and (outcome in ("dry run", "refused") or said == foreseen.done):
        print(plain(str(foreseen)))
        said = "" if said in (foreseen.refused, foreseen.done) else said  # it is among those lines
    if said:
        print(plain(said), file=sys.stdout if code is Exit.DONE else sys.stderr)
    sys.exit(code)

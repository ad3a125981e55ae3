"""The commands that make a stream faster: advice from what its driver has measured, and a trial that proves it."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from datetime import UTC, datetime
from typing import Any, NoReturn

from airflow.utils.cli import suppress_logs_and_warning

from airflow_stream_provider.cli.commands import given_by, given_stream, read_connections
from airflow_stream_provider.cli.run_here import Exit, nobody_to_ask, run_here
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.texts import plain
from airflow_stream_provider.operators.stream import TrialOperator
from airflow_stream_provider.planning.operation import check_reason
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.steps import CommandIdentity, GiveUp
from airflow_stream_provider.planning.trial import Advice, advice_of, try_out
from airflow_stream_provider.tuning.proposal import Proposal


@suppress_logs_and_warning
def advice(args: Namespace) -> NoReturn:
    """Show what the rules propose for a stream, and what has become of what was tried."""
    read_connections()
    try:
        spec = given_stream(args)
        found = advice_of(StreamHook.of(spec).observe(), spec.lag.max_seconds)
    except StreamError as error:
        print(plain(str(error)), file=sys.stderr)
        sys.exit(Exit.UNKNOWN)
    print(json.dumps(found.to_json()) if args.json else plain("\n".join(lines(args.name, found))))
    sys.exit(Exit.DONE)


def lines(stream: str, found: Advice) -> list[str]:
    """Return advice for a terminal: each proposal with its numbers, then what was tried."""
    said = [line for each in found.proposals for line in _proposed(stream, each)]
    said += [f"{each.sentence} (record {each.seq})" for each in found.tried]
    return [*said, *found.missing] or [f"Nothing is proposed for {stream}."]


def _proposed(stream: str, proposal: Proposal) -> list[str]:
    """Return one proposal: numbers, change, prediction, and the command of its trial where there can be one."""
    change, trial = proposal.change, proposal.change.trial
    predicted = f", predicted {proposal.expected}" if proposal.expected else ""
    needs = f" It needs {proposal.needs}." if proposal.needs else ""
    said = [
        f"{proposal.rule}: {proposal.query}",
        f"  {proposal.found}",
        f"  Change ({change.where}): {change.what}{predicted}.{needs}",
    ]
    if trial is not None:
        words = [*(f"--conf {name}={value}" for name, value in trial.conf.items())]
        words += [f"--option {name}={value}" for name, value in trial.options.items()]
        words += ["--persist"] if trial.persist else []
        said.append(f'  Prove it: airflow streams trial {stream} {" ".join(words)} --reason "advice {proposal.rule}"')
    return said


@suppress_logs_and_warning
def trial(args: Namespace) -> NoReturn:
    """Measure settings beside the holder, and show how many times faster or slower a record is with them."""
    read_connections()
    try:
        operator = TrialOperator(
            task_id="trial",
            stream=given_stream(args),
            conf=args.conf or [],
            options=args.option or [],
            persist=args.persist,
            reason="" if args.dry_run and args.reason is None else check_reason(args.reason or ""),
        )
        wanted = operator.trial
        identity = CommandIdentity(
            given_by(), f"{datetime.fromtimestamp(time.time(), UTC):%Y-%m-%dT%H:%M:%S.%fZ}", "trial"
        )
        answer = try_out(Scene(operator.hook.observe(), identity), wanted, operator.reason)
    except SpecError as error:
        _end(args, Exit.REFUSED, str(error))
    except StreamError as error:
        _end(args, Exit.UNKNOWN, str(error))
    if isinstance(answer, GiveUp):
        _end(args, Exit.REFUSED, str(answer.error))
    ahead = (
        f"A driver of the release that holds comes up beside it, measures {wanted.changes} against what is set now on "
        "clones of the checkpoints, and is ended. What runs is not touched."
    )
    if args.dry_run:
        _end(args, Exit.DONE, f"{ahead} Dry run: nothing was done.")
    if not args.yes and nobody_to_ask(args.json):
        _end(args, Exit.REFUSED, "Nobody can be asked here. See it with --dry-run; then give --yes.")
    if not args.yes and input(f"{ahead}\nDo this? [y/N] ").strip().lower() not in ("y", "yes"):
        _end(args, Exit.REFUSED, "Nothing was done.")
    stays = f"Its driver may stand by still: `airflow streams abort {args.name}` ends it. It never comes to hold."
    try:
        ran = run_here(operator, identity)
    except StreamError as error:
        _end(args, Exit.UNKNOWN, f"{error} {stays}")
    except KeyboardInterrupt:
        _end(args, Exit.UNKNOWN, f"Interrupted. {stays}")
    said = "\n".join(ran.result.get("sentences", ())) or ran.said
    _end(args, ran.code, said if ran.code is not Exit.UNKNOWN else f"{said} {stays}", **ran.result)


def _end(args: Namespace, code: Exit, said: str, **result: Any) -> NoReturn:
    """Print how a trial ended, and exit.

    :param result: the XCom of its operator; empty unless it has measured.
    """
    if args.json:
        print(json.dumps({"stream": args.name, "outcome": code.name.lower(), "said": said, "result": result}))
    else:
        print(plain(said), file=sys.stdout if code is Exit.DONE else sys.stderr)
    sys.exit(code)

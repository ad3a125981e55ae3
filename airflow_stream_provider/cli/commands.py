"""The commands of `airflow streams`. Each one prints what it found, and exits with a code for it."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from airflow.configuration import conf
from airflow.utils.cli import suppress_logs_and_warning
from rich.console import Console
from rich.live import Live

from airflow_stream_provider.audit.check import Severity
from airflow_stream_provider.audit.report import together
from airflow_stream_provider.cli.status import Code, code_of_look, code_of_sample, statuses
from airflow_stream_provider.cli.tables import (
    audit_view,
    comparison_view,
    lag_view,
    ledger_view,
    life_table,
    samples_table,
    status_table,
)
from airflow_stream_provider.hooks.audit import audit_kafka, audit_spark
from airflow_stream_provider.hooks.compare import compare
from airflow_stream_provider.hooks.control import control_root, declared
from airflow_stream_provider.hooks.lag import look_at_lag
from airflow_stream_provider.hooks.ledger import difference, read_ledger
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.limits import LagLook
from airflow_stream_provider.lag.reader import read_committed
from airflow_stream_provider.lag.report import GroupVerdict
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.texts import count
from airflow_stream_provider.monitoring.life import life, with_gaps
from airflow_stream_provider.monitoring.samples import read
from airflow_stream_provider.planning.steps import person
from airflow_stream_provider.spec.folder import load_specs
from airflow_stream_provider.spec.folder_check import check_folder
from airflow_stream_provider.spec.lag_target import lag_target
from airflow_stream_provider.spec.stream import StreamSpec


def read_connections() -> None:
    """Let Airflow read connections wherever they live, the database too, as for `airflow connections test`."""
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"


def given_by() -> str:
    """Return the person of this command, such as ``anna@edge1``; with sudo, the one who has called that.

    Not LOGNAME or USER: sudo and containers set them to Airflow's user, and everybody as he likes.
    """
    uid = os.getuid()
    try:
        name = os.environ.get("SUDO_USER") or pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid-{uid}"  # as in a container with a user of its own number
    return person(name, socket.gethostname())


def given_folder(args: Namespace) -> Path:
    """Return the folder of the YAML files."""
    return Path(args.folder) if args.folder else Path(conf.get("core", "dags_folder")) / "streams"


def given_stream(args: Namespace) -> StreamSpec:
    """Return the stream that was named.

    :raises SpecError: there is none of that name, or its YAML cannot be used.
    """
    folder = given_folder(args)
    found = load_specs(folder)
    specs = {each.name: each for each in found if isinstance(each, StreamSpec)}
    if args.name not in specs:
        broken = " ".join(str(each) for each in found if isinstance(each, SpecError))
        hint = " Where a stream runs on without a YAML: --control URL." if hasattr(args, "control") else ""
        raise SpecError(
            f"There is no stream {args.name} in {folder}; there are: {', '.join(specs) or 'none'}.",
            next_step=f"{broken or 'Name one of them, or give --folder.'}{hint}",
        )
    return specs[args.name]


def declared_stream(args: Namespace) -> StreamSpec:
    """Return the stream that was named; with --control as it was declared last, whatever its YAML says by now.

    A stream runs on when a typo is saved, and has to be stopped all the same.

    :raises SpecError: there is none of that name.
    :raises ControlUnavailable: the control root that was named cannot be read now.
    """
    control = getattr(args, "control", None)
    if not control:
        return given_stream(args)
    found = declared(args.name, control)
    if found is None:
        raise SpecError(
            f"No stream {args.name} was declared in {control}.", next_step="Correct the name, or `--control`."
        )
    return found.spec


WATCH_SECONDS = 5.0


@suppress_logs_and_warning
def init(args: Namespace) -> None:
    """Make a control root."""
    read_connections()
    try:
        made = control_root(args.control).make()
    except StreamError as error:
        _fail(error)
    print(f"{args.control} is {'now' if made else 'already'} a control root.")


@suppress_logs_and_warning
def lag(args: Namespace) -> NoReturn:
    """Measure the lag of a stream, once or until Ctrl-C; or show what its watch has measured."""
    read_connections()
    spec = _spec(args)
    if args.history:
        _samples(spec, args)
    looks = _looks(spec, args.ledger or "", again=args.watch)
    code = Code.UNKNOWN
    # Ctrl-C is the normal end of --watch.
    with contextlib.suppress(KeyboardInterrupt):
        if args.json:
            for look in looks:
                code = code_of_look(spec, look)
                print(json.dumps(_to_json(spec, look)), flush=True)
        else:
            with Live(console=_console(), auto_refresh=False) as live:
                for look in looks:
                    code = code_of_look(spec, look)
                    limits = spec.lag.limits
                    live.update(lag_view(spec.name, look, look.judge(limits), limits.ceilings), refresh=True)
    sys.exit(code)


@suppress_logs_and_warning
def status(args: Namespace) -> NoReturn:
    """Show all streams: what runs, and the last sample of their watch."""
    read_connections()
    try:
        lines = statuses(load_specs(given_folder(args)))
    except SpecError as error:
        _fail(error)
    if args.json:
        print(json.dumps([line.to_json() for line in lines]))
    else:
        _console().print(status_table(lines, time.time()))
    sys.exit(Code.worst(line.code for line in lines))


@suppress_logs_and_warning
def history(args: Namespace) -> None:
    """Show a stream's life, as its control log tells it; with --control also of one whose YAML cannot be used now."""
    read_connections()
    try:
        spec = declared_stream(args)
        found = StreamHook.of(spec).observe()
        events = with_gaps(found, life(found.records, found.state)[-args.last :])
    except StreamError as error:
        _fail(error)
    if args.json:
        print(json.dumps([event.to_json() for event in events]))
    else:
        _console().print(life_table(spec.name, events))


@suppress_logs_and_warning
def ledger(args: Namespace) -> None:
    """Show what a sink's ledger holds of a stream or of another job, and how the stream's checkpoints differ."""
    read_connections()
    try:
        committed = _checkpoints(args)  # first, as the ledger moves before them
        rows = read_ledger(args.connection, args.name, args.last)
    except StreamError as error:
        _fail(error)
    said = {row.query: difference(row, committed[row.query_id]) for row in rows if row.query_id in committed}
    if args.json:
        print(json.dumps([{**row.to_json(), "difference": said.get(row.query)} for row in rows]))
    else:
        _console().print(ledger_view(args.name, rows, said, time.time()))


@suppress_logs_and_warning
def audit(args: Namespace) -> NoReturn:
    """Audit a stream's Kafka and Spark."""
    read_connections()
    spec = _spec(args)
    both, reports, errors = args.kafka == args.spark, [], []
    try:
        hook = StreamHook.of(spec)
        snapshot = hook.observe(history=False)
    except StreamError as error:
        _fail(error)
    # Without Kafka in its YAML a stream is none of its clients, unless that is asked for.
    if args.kafka or (both and spec.kafka):
        reports.append(partial(audit_kafka, hook, snapshot, spec.offsets_group or ""))
    if args.spark or both:
        reports.append(partial(audit_spark, hook, snapshot))
    found = []
    for audited in reports:
        try:
            found.append(audited())
        except StreamError as error:
            errors.append(error)
            print(error, file=sys.stderr)
    report = together(found)
    if args.json:
        print(json.dumps(report.to_json()))
    else:
        _console().print(audit_view(spec.name, report))
    failing = report.failing(Severity.of(args.fail_on))
    sys.exit(Code.WARN if failing else Code.UNKNOWN if errors else Code.WELL)


@suppress_logs_and_warning
def validate(args: Namespace) -> NoReturn:
    """Check a folder of YAML files, without a connection or a control log."""
    try:
        found = check_folder(given_folder(args))
    except SpecError as error:
        _fail(error)
    if args.json:
        print(json.dumps(found.to_json()))
    else:
        for each in found.errors:
            print(each)
        for each in found.warnings:
            print(f"Warning: {each}")
        numbers = [count(len(found.files), "file"), count(len(found.errors), "error")]
        print(f"{', '.join([*numbers, *([count(len(found.warnings), 'warning')] if found.warnings else [])])}.")
    sys.exit(Code.WARN if found.errors else Code.WELL)


@suppress_logs_and_warning
def diff(args: Namespace) -> NoReturn:
    """Show how a stream's YAML and what runs differ."""
    read_connections()
    spec = _spec(args)
    try:
        found = compare(spec)
    except StreamError as error:
        _fail(error)
    if args.json:
        print(json.dumps(found.to_json()))
    else:
        _console().print(comparison_view(found))
    sys.exit(Code.WELL if found.same else Code.WARN)


def _checkpoints(args: Namespace) -> dict[str, Committed]:
    """Return how far a stream's checkpoints are, by the id of the query; of a job without a YAML, nothing."""
    try:
        spec = given_stream(args)
    except SpecError:
        return {}
    hook = StreamHook.of(spec)
    known = read_committed(hook.control_log, spec.control) if hook.exists() else []
    return {found.id: found for found in known if found.id}


def _samples(spec: StreamSpec, args: Namespace) -> NoReturn:
    """Show the last samples of a stream's watch."""
    if args.watch:
        _fail(SpecError("--history shows what was measured, and --watch measures.", next_step="Leave out one of them."))
    try:
        samples = read(control_root(spec.control).samples(spec.name))[-args.last :]
    except StreamError as error:
        _fail(error)
    if args.json:
        print(json.dumps([sample.to_json() for sample in samples]))
    elif samples:
        _console().print(samples_table(spec.name, samples))
    else:
        watch = f"{spec.source.parent.name}__watch"
        print(f"The watch has no sample of {spec.name} yet: is the DAG {watch} (with the prefix of yours) unpaused?")
    sys.exit(code_of_sample(spec, samples[-1]) if samples else Code.UNKNOWN)


def _looks(spec: StreamSpec, ledger: str, again: bool) -> Iterator[LagLook]:
    yield _look(spec, ledger)
    while again:
        time.sleep(WATCH_SECONDS)
        yield _look(spec, ledger)


def _look(spec: StreamSpec, ledger: str) -> LagLook:
    try:
        return look_at_lag(lag_target(spec, ledger=ledger), spec.lag.limits.moments)
    except StreamError as error:
        return LagLook.failed(error)


def _to_json(spec: StreamSpec, look: LagLook) -> dict[str, Any]:
    limits = spec.lag.limits
    judgement = look.judge(limits)
    found = summary(look.report, limits.ceilings) if look.report else {"verdict": GroupVerdict.UNKNOWN.value}
    return {"stream": spec.name, "health": judgement.health.value, "reasons": list(judgement.reasons), **found}


def _spec(args: Namespace) -> StreamSpec:
    try:
        return given_stream(args)
    except SpecError as error:
        _fail(error)


def _console() -> Console:
    # Without a terminal, rich would cut lines at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 160)


def _fail(error: StreamError) -> NoReturn:
    print(error, file=sys.stderr)
    sys.exit(Code.UNKNOWN)

"""What `airflow streams` does. Each command prints, and exits by what it found."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

from airflow.configuration import conf
from airflow.utils.cli import suppress_logs_and_warning
from rich.console import Console
from rich.live import Live

from airflow_stream_provider.cli.tables import history_table, lag_view, status_table
from airflow_stream_provider.control import open_log
from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.lag.limits import Health, LagJudgement
from airflow_stream_provider.lag.report import GroupVerdict, LagReport
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lag.targets import LagTarget, measure_lag
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.monitoring.health import RESTING
from airflow_stream_provider.monitoring.lag_history import health_of
from airflow_stream_provider.monitoring.samples import LagSample, read
from airflow_stream_provider.spec.stream import StreamSpec, load_specs

WATCH_SECONDS = 5.0
# A watch that has not been heard of for so long says nothing of now.
STALE_SECONDS = 900.0


class Code(IntEnum):
    """Exit codes, those of Nagios and of all that came after it."""

    WELL = 0
    WARN = 1
    BAD = 2
    UNKNOWN = 3

    @classmethod
    def worst(cls, codes: Iterable[Code]) -> Code:
        """Return the one to be told of all."""
        order = (cls.WELL, cls.WARN, cls.UNKNOWN, cls.BAD)
        return max(codes, key=order.index, default=cls.UNKNOWN)

    @classmethod
    def of(cls, health: Health, verdict: GroupVerdict | str) -> Code:
        """Return the one for a judgement and Burrow's verdict."""
        if health is Health.PASS:
            return cls.WARN if verdict == GroupVerdict.WARN else cls.WELL
        return cls.BAD if health is Health.FAIL else cls.UNKNOWN


@dataclass(frozen=True)
class StreamStatus:
    """A line of `status`. `sample`: the last one of the watch; `problem`: why something is not known."""

    stream: str
    phase: str = ""
    version: str = ""
    sample: LagSample | None = None
    problem: str = ""
    code: Code = Code.UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """Return the line as a JSON object."""
        return {
            "stream": self.stream,
            "phase": self.phase,
            "version": self.version,
            "lag": self.sample.to_json() if self.sample else None,
            "problem": self.problem,
            "code": int(self.code),
        }


@suppress_logs_and_warning
def lag(args: Namespace) -> NoReturn:
    """Measure a stream, once or until Ctrl-C."""
    # Connections may live in the database, as for `airflow connections test`.
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    spec = _spec(args)
    looks = _looks(spec, again=args.watch)
    code = Code.UNKNOWN
    # Ctrl-C is how a person ends a watch, not an error.
    with contextlib.suppress(KeyboardInterrupt):
        if args.json:
            for report, judged in looks:
                code = _code_of(report, judged)
                print(json.dumps(_to_json(spec, report, judged)), flush=True)
        else:
            with Live(console=_console(), auto_refresh=False) as live:
                for report, judged in looks:
                    code = _code_of(report, judged)
                    live.update(lag_view(spec.name, report, judged, spec.lag.limits.ceilings), refresh=True)
    sys.exit(code)


@suppress_logs_and_warning
def status(args: Namespace) -> NoReturn:
    """Show all streams."""
    try:
        lines = [_status(spec) for spec in load_specs(_folder(args))]
    except SpecError as error:
        _fail(error)
    if args.json:
        print(json.dumps([line.to_json() for line in lines]))
    else:
        _console().print(status_table(lines, time.time()))
    sys.exit(Code.worst(line.code for line in lines))


@suppress_logs_and_warning
def history(args: Namespace) -> NoReturn:
    """Show the samples of a stream's watch."""
    spec = _spec(args)
    try:
        samples = read(open_log(spec.control, spec.name).store)[-args.last :]
    except StreamError as error:
        _fail(error)
    if args.json:
        print(json.dumps([sample.to_json() for sample in samples]))
    elif samples:
        _console().print(history_table(spec.name, samples, spec.lag.limits))
    else:
        print(f"Nobody has watched {spec.name} yet: is the DAG {spec.name}__watch unpaused?")
    sys.exit(_code(samples[-1], spec) if samples else Code.UNKNOWN)


def _looks(spec: StreamSpec, again: bool) -> Iterator[tuple[LagReport | None, LagJudgement]]:
    yield _look(spec)
    while again:
        time.sleep(WATCH_SECONDS)
        yield _look(spec)


def _look(spec: StreamSpec) -> tuple[LagReport | None, LagJudgement]:
    try:
        target = LagTarget.of(spec)
        report = measure_lag(target, kafka_extra(target.kafka))
    except StreamError as error:
        return None, LagJudgement(Health.UNKNOWN, (str(error),))
    return report, spec.lag.limits.judge(report)


def _code_of(report: LagReport | None, judged: LagJudgement) -> Code:
    return Code.of(judged.health, report.verdict if report else GroupVerdict.UNKNOWN)


def _to_json(spec: StreamSpec, report: LagReport | None, judged: LagJudgement) -> dict[str, Any]:
    found = summary(report, spec.lag.limits.ceilings) if report else {"verdict": GroupVerdict.UNKNOWN.value}
    return {"stream": spec.name, "health": judged.health.value, "reasons": list(judged.reasons), **found}


def _status(spec: StreamSpec | SpecError) -> StreamStatus:
    if isinstance(spec, SpecError):
        return StreamStatus(Path(str(spec.fields.get("file", "?"))).stem, problem=str(spec))
    try:
        log = open_log(spec.control, spec.name)
        state, samples = log.refresh(), read(log.store)
    except StreamError as error:
        return StreamStatus(spec.name, problem=str(error))
    held = state.holding_deployment
    version = held.release.version if held else ""
    last = samples[-1] if samples else None
    if state.phase in (StreamPhase.FAILED, StreamPhase.DOWN):
        code = Code.BAD
    elif state.phase is not StreamPhase.RUNNING:
        code = Code.WELL
    elif last and last.at > time.time() - STALE_SECONDS:
        code = _code(last, spec)
    else:
        code = Code.UNKNOWN if spec.kafka else Code.WELL
    return StreamStatus(spec.name, state.phase.value, version, last, last.problem if last else "", code)


def _code(sample: LagSample, spec: StreamSpec) -> Code:
    if sample.phase in RESTING:
        return Code.WELL
    if sample.open_incidents.keys() & {"down", "lag"}:
        return Code.BAD
    if not spec.kafka:
        return Code.WELL
    warned = any(query.verdict == GroupVerdict.WARN for query in sample.queries.values())
    return Code.of(health_of(sample, spec.lag.limits), GroupVerdict.WARN if warned else GroupVerdict.OK)


def _folder(args: Namespace) -> Path:
    return Path(args.folder) if args.folder else Path(conf.get("core", "dags_folder")) / "streams"


def _spec(args: Namespace) -> StreamSpec:
    folder = _folder(args)
    try:
        found = load_specs(folder)
    except SpecError as error:
        _fail(error)
    spec = next((each for each in found if isinstance(each, StreamSpec) and each.name == args.name), None)
    if spec is None:
        broken = [each for each in found if isinstance(each, SpecError)]
        names = ", ".join(each.name for each in found if isinstance(each, StreamSpec)) or "none"
        _fail(
            SpecError(
                f"There is no stream {args.name} in {folder}; there are: {names}.",
                next_step=" ".join(str(error) for error in broken) or "Name one of them, or give --folder.",
            )
        )
    return spec


def _console() -> Console:
    # What is piped is not cut at the 80 columns of a terminal that is not there.
    return Console(width=None if sys.stdout.isatty() else 160)


def _fail(error: StreamError) -> NoReturn:
    print(error, file=sys.stderr)
    sys.exit(Code.UNKNOWN)

"""`airflow streams dossier`: what a failing batch reads, which of its records fail, and to leave these out."""

from __future__ import annotations

import json
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.utils.cli import suppress_logs_and_warning
from typing_extensions import override

from airflow_stream_provider.cli.commands import given_by, given_stream, read_connections
from airflow_stream_provider.cli.run_here import Exit, Ran, nobody_to_ask, run_here
from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.kafka import dead_letters
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import QueryHealth, QueryState
from airflow_stream_provider.lifecycle.kafka_source import KafkaSource, kafka_sources
from airflow_stream_provider.lifecycle.skip import MOST_SKIPPED, KafkaRecord, skipped
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.texts import count, duration, plain
from airflow_stream_provider.operators.stream import AbortOperator
from airflow_stream_provider.operators.upgrade import SubmitStandbyOperator
from airflow_stream_provider.planning.operation import MAX_REASON, check_reason
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import CommandIdentity, TaskIdentity, Want, new_command
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_stream_provider.kafka.dead_letters import DeadLetters
    from airflow_stream_provider.planning.scene import Scene
    from airflow_stream_provider.planning.verbs import Answer

# Longer than `runtime.bad_records.FIND_SECONDS` and the start of a driver.
FIND_WAIT_SECONDS = 1500.0
# Characters of a value that are shown, as a shape.
SHAPE = 64


class _OfPolicy(SubmitStandbyOperator):
    """Brings in the release that held last with something else in its policy.

    :param policy: what `StreamHook.wish` puts there, by the state that the wish follows.
    :param how: as of `verbs.stand_by`.
    :param since: when the command began, in seconds since 1970: a later stop counts.
    """

    def __init__(
        self,
        *,
        policy: Callable[[StreamState], Mapping[str, Any]],
        how: Mapping[str, Any],
        since: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(redeployed=True, wait_seconds=FIND_WAIT_SECONDS, **kwargs)
        self.policy = policy
        self.how = how
        self.since = since

    @override
    def begin(self, context: Context) -> None:
        super().begin(context)
        self._asked_at = self.since

    @override
    def wish(self, scene: Scene) -> Answer:
        return self.deploy(scene, **self.how)

    @override
    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        return super().want(replace(step, fields={**step.fields, **self.policy(snapshot.state)}), snapshot, identity)


@suppress_logs_and_warning
def dossier(args: Namespace) -> NoReturn:
    """Show the dossier; or look for the bad records, leave some out, or take some back, once a person has said yes."""
    read_connections()
    try:
        command = _Command(args, given_stream(args))
        command.run()
    except SpecError as error:
        _end(args, Exit.REFUSED, {"said": str(error)}, [])
    except StreamError as error:
        _end(args, Exit.UNKNOWN, {"said": str(error)}, [])
    except (KeyboardInterrupt, EOFError):
        said = "Interrupted. What was asked for goes on; a driver that only looks is ended by `airflow streams abort`."
        _end(args, Exit.UNKNOWN, {"said": said}, [])


@dataclass
class _Command:
    args: Namespace
    spec: StreamSpec
    began: float = field(default_factory=time.time)

    def run(self) -> NoReturn:
        """Do what the options say, and exit."""
        hook = StreamHook.of(self.spec)
        if not hook.exists():
            raise SpecError(f"{self.spec.name} was never deployed.", next_step="There is nothing to look at.")
        snapshot = hook.observe()
        found = Dossier.of(snapshot)
        if self.args.find:
            self._find(hook, snapshot, found)
        if self.args.skip or self.args.take_back:
            self._skip(hook, snapshot, found)
        _end(self.args, Exit.REFUSED if found.failing else Exit.DONE, found.to_json(), found.lines)

    def _find(self, hook: StreamHook, snapshot: Snapshot, found: Dossier) -> NoReturn:
        held = self._able(snapshot)
        self._ask(
            [
                *found.lines,
                f"A driver of release {held['version']} comes up beside what runs, and runs parts of the batch that is "
                "planned on clones of the checkpoint, until the records are found that fail. It writes nowhere, never "
                "comes to hold, and is ended after that. What stands by warm makes room for it.",
            ]
        )
        finder = self._identity("dossier.find")
        try:
            ran = self._bring_in(held, "look for bad records", lambda state: {"find": True}, {}, finder)
        finally:
            back = AbortOperator(task_id="end", stream=self.spec, family=finder.wish, reason="It has looked")
            ended = run_here(back, self._identity("dossier.end"))
        if ran.code is not Exit.DONE:
            _end(self.args, ran.code, {**found.to_json(), "said": ran.said}, found.lines)
        queries: Mapping[str, Any] = ran.result["rehearsal"].get("queries", {})
        names = list(dict.fromkeys(name for each in queries.values() for name in each.get("bad", ())))
        read = zip(names, self._letters(hook).read(map(KafkaRecord.of, names)), strict=True) if names else ()
        shown = [excerpt(name, record) for name, record in read]
        lines = [*_of_search(queries), *(json.dumps(each) for each in shown)]
        if names:
            also = " ".join(f"--skip {name}" for name in names)
            lines.append(f"To leave them out: airflow streams dossier {self.spec.name} {also} --dead-letter TOPIC")
        lines += [ended.said] if ended.code is not Exit.DONE else []
        _end(self.args, Exit.DONE, {**found.to_json(), "queries": queries, "records": shown}, lines)

    def _skip(self, hook: StreamHook, snapshot: Snapshot, found: Dossier) -> NoReturn:
        held, reason = self._able(snapshot), check_reason(self.args.reason or "")
        more = [KafkaRecord.of(text) for text in self.args.skip or ()]
        less = [KafkaRecord.of(text) for text in self.args.take_back or ()]
        topic = self.args.dead_letter or ""
        self._check_topics(snapshot, more, topic)
        read = self._letters(hook).read(more) if more else []
        more = [KafkaRecord(each.topic, each.partition, each.offset, each.timestamp) for each in read]
        new_list(snapshot.state, more, less)  # before anybody is asked
        names = ", ".join(each.name for each in more)
        what = " ".join([*([f"Leave out {names}."] if more else []), *(f"Read {each.name} again." for each in less)])
        will = [f"{what} It holds for every query of the stream that reads the topic, until it is taken back."]
        if more:
            will.append(
                f"First {count(len(more), 'record')} are copied to {topic}, whole."
                if topic
                else "They are copied nowhere: Kafka deletes them in its time. A topic to keep them: --dead-letter."
            )
        if topic and any(not each.names for each in self._sources(snapshot)):
            will.append(f"The stream reads topics by a pattern: if {topic} is one of these, it reads what is copied.")
        will.append(
            f"The stream stops, and a new driver of release {held['version']} comes up and holds. What is committed "
            "already stays as it is: to read such records again, rewind the stream after that."
        )
        self._ask([*found.lines, *will])
        copied = 0
        if topic and read:
            error = next((each.error for each in found.failing.values()), "")
            copied = self._letters(hook).write(topic, read, self.spec.name, error)
        alone = {"alone": True, "approved": given_by()}
        ran = self._bring_in(
            held,
            f"{what} {reason}"[:MAX_REASON],
            lambda state: {"skip": new_list(state, more, less)},
            alone,
            self._identity("dossier.skip"),
        )
        said, state = ran.said, hook.observe().state
        skip, driver = skipped(state), state.last_driver
        if ran.code is Exit.DONE:
            does = driver is not None and driver.rehearsal.get("skips") == len(skip)
            said = f"Done: {what} {count(copied, 'record')} copied." if does else "The driver does not leave them out."
            ran = ran if does else replace(ran, code=Exit.FAILED)
        _end(self.args, ran.code, {"said": said, "copied": copied, "skipped": skip}, [])

    def _able(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return the release that holds, or held last."""
        last = snapshot.state.last_deployment
        if last is None:
            raise SpecError("No driver has ever held the stream.", next_step="Start it first.")
        driver = snapshot.state.last_driver
        if driver is None or driver.rehearsal.get("skips") is None:  # which says that its runtime can
            raise SpecError(
                f"The runtime of release {last.release.version} ({last.id}) is older than this command, or it has not "
                "rehearsed: it would neither look for records nor leave them out.",
                next_step="Upgrade the stream with this provider first; nothing was done.",
            )
        return last.release.to_json()

    def _letters(self, hook: StreamHook) -> DeadLetters:
        conn = hook.kafka_conn_id
        if conn is None:
            raise SpecError("The YAML names no connection `kafka`.", next_step="Name it: records are read by it.")
        return dead_letters.DeadLetters(conn, kafka_extra(conn))

    def _sources(self, snapshot: Snapshot) -> list[KafkaSource]:
        driver = snapshot.state.last_driver
        return [each for query in (driver.queries if driver else ()) for each in kafka_sources(query)]

    def _check_topics(self, snapshot: Snapshot, records: Sequence[KafkaRecord], dead_letter: str) -> None:
        sources = self._sources(snapshot)
        for record in records:
            if not any(each.may_read(record.topic) for each in sources):
                raise SpecError(f"The stream does not read {record.topic}.", next_step="Correct the name.")
        if dead_letter and any(dead_letter in each.names for each in sources):
            raise SpecError(f"The stream reads {dead_letter} itself.", next_step="Name another dead-letter topic.")

    def _bring_in(
        self, release: Mapping[str, Any], reason: str, policy: Any, how: Mapping[str, Any], me: CommandIdentity
    ) -> Ran:
        more: Any = {"checked": release, "policy": policy, "how": how, "reason": reason}
        return run_here(_OfPolicy(task_id="bring_in", stream=self.spec, since=self.began, **more), me)

    def _identity(self, part: str) -> CommandIdentity:
        return new_command(given_by(), part, time.time())

    def _ask(self, lines: Sequence[str]) -> None:
        """Go on once a person has said yes."""
        print(plain("\n".join(lines)), file=sys.stderr, flush=True)
        if self.args.yes:
            return
        if nobody_to_ask(self.args.json):
            raise SpecError("Nobody can be asked here.", next_step="Give --yes, once a person has read this.")
        if input("Do this? [y/N] ").strip().lower() not in ("y", "yes"):
            _end(self.args, Exit.REFUSED, {"said": "Nothing was done."}, [])


def _of_search(queries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what the search has found, a line for each query."""
    found = []
    for name, said in sorted(queries.items()):
        bad = ", ".join(said.get("bad", ()))
        size = f" of {count(said['records'], 'record')}" if "records" in said else ""
        runs = f", in {count(said.get('runs', 0), 'run')}"
        what = (
            f"batch {said.get('batch')}{size} fails at {bad}{runs}: {said.get('error', '')}"
            if bad
            else "nothing found."
        )
        found.append(f"{name}: {what} {said.get('note', '')}".rstrip())
    return found


def _end(args: Namespace, code: Exit, body: Mapping[str, Any], lines: Sequence[str]) -> NoReturn:
    if args.json:
        print(json.dumps({"stream": args.name, **body}))
    else:
        said = str(body.get("said") or "")
        print(plain("\n".join([*lines, *([said] if said else [])])), file=sys.stdout if not code else sys.stderr)
    sys.exit(code)


@dataclass(frozen=True)
class Dossier:
    """The failures of a stream, as far as they are known.

    :param holds: who holds it, as a sentence; without a holder also why the last driver ended.
    :param failing: by query, how it is; those that do not get on, as the driver said last.
    :param skipped: the records that the stream leaves out.
    """

    stream: str
    holds: str
    failing: Mapping[str, QueryHealth]
    skipped: tuple[KafkaRecord, ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Dossier:
        """Return the dossier of a stream as it is now."""
        state = snapshot.state
        beat, last = snapshot.heartbeats.get(state.last_holder or ""), state.last_deployment
        health = {query.name: query.health for query in (beat.queries if beat is not None else ()) if query.health}
        failing = {name: each for name, each in health.items() if each.state != QueryState.RUNNING.value}
        ended = snapshot.why_ended(last.id) if last is not None and state.holder is None else ""
        holds = " ".join(filter(None, (snapshot.holder_sentence, ended and f"It ended: {ended}")))
        return cls(snapshot.stream, holds, failing, tuple(map(KafkaRecord.of, skipped(state))))

    @property
    def lines(self) -> list[str]:
        """The text for a person, line by line."""
        found = [f"{self.stream}: {self.holds}"]
        for name, health in self.failing.items():
            batch = "" if health.batch is None else f" in batch {health.batch}"
            failures = f"{count(health.failures, 'failure')} in {duration(health.seconds)}"
            found.append(f"{name} is {health.state}{batch}: {failures}.")
            found += [f"  {said}: {text}" for said, text in (("Error", health.error), ("Cause", health.cause)) if text]
            size = offsets_of(health)
            found += [f"  It reads {health.reads} ({count(size, 'offset')})."] if health.reads else []
        found += [] if self.failing else ["No query says that it fails."]
        return [*found, *(f"Left out by a person's wish: {each.name}" for each in self.skipped)]

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        failing = [
            {"query": name, "offsets": offsets_of(each), **each.to_json()} for name, each in self.failing.items()
        ]
        skipped = [each.name for each in self.skipped]
        return {"stream": self.stream, "holds": self.holds, "failing": failing, "skipped": skipped}


def offsets_of(health: QueryHealth) -> int | None:
    """Return how many offsets of Kafka a batch reads; None: that is not known."""
    ends = [(each.start, each.end) for each in health.ranges]
    known = ends and not health.left_out and all(begin.isdigit() and end.isdigit() for begin, end in ends)
    return sum(int(end) - int(begin) for begin, end in ends) if known else None


def new_list(state: StreamState, more: Sequence[KafkaRecord], less: Sequence[KafkaRecord]) -> list[str]:
    """Return what the stream leaves out once some records are added to it and others are taken back; sorted.

    :raises SpecError: one that is taken back is not on the list, or there are too many.
    """
    now = {each.name: each for each in map(KafkaRecord.of, skipped(state))}
    unknown = [each.name for each in less if each.name not in now]
    if unknown:
        raise SpecError(f"{', '.join(unknown)} is not left out.", next_step="Nothing was done.")
    found = {**now, **{each.name: each for each in more}}
    for each in less:
        found.pop(each.name, None)
    if len(found) > MOST_SKIPPED:
        raise SpecError(f"A stream leaves out at most {MOST_SKIPPED} records.", next_step="Nothing was done.")
    return [str(each) for each in sorted(found.values())]


def shape_of(data: bytes | None) -> str:
    """Return the beginning of a key or a value without what it says: a letter is shown as x, a digit as 9."""
    text = (data or b"")[: 4 * SHAPE].decode("utf-8", "replace")[:SHAPE]
    return re.sub(r"[^\W\d_]", "x", re.sub(r"\d", "9", "".join(c if c.isprintable() else "?" for c in text)))


def excerpt(name: str, record: Any) -> dict[str, Any]:
    """Return what is shown of a record of Kafka; never what it says."""
    key, value = record.key, record.value
    return {
        "record": name,
        "timestamp": record.timestamp,
        "key_bytes": None if key is None else len(key),
        "value_bytes": None if value is None else len(value),
        "value_shape": shape_of(value),
        "headers": [header for header, _ in record.headers],
    }

"""A trial beside the holder: its settings, its wish and its end; and the advice that leads to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed, SpecError
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.texts import secret_setting
from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.lifecycle.wish import Goal
from airflow_stream_provider.planning.pursue import pursue
from airflow_stream_provider.planning.retire import end_unneeded
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Skip, Step, Want
from airflow_stream_provider.planning.verbs import withdraw
from airflow_stream_provider.tuning.advise import ARROW, WANTED_SECONDS, advise, unmeasured
from airflow_stream_provider.tuning.proposal import Proposal
from airflow_stream_provider.tuning.verdict import Live, Tried, in_vain, seconds_per_record, tried

# The driver of a trial runs some sixty batches of each query.
TRIAL_SECONDS = 1800.0
# The options of a Kafka source that change how it reads, and not what.
OPTIONS = (
    *("maxoffsetspertrigger", "minpartitions", "maxrecordsperpartition", "kafka.max.poll.records"),
    *("kafka.fetch.min.bytes", "kafka.fetch.max.bytes", "kafka.fetch.max.wait.ms", "kafka.max.partition.fetch.bytes"),
)
# The settings of a session that change how a batch is run, by name or by how they begin: others name classes, places or
# secrets, and not every person who may trigger a trial may write the YAML.
SETTINGS = ("spark.sql.shuffle.partitions", "spark.sql.autoBroadcastJoinThreshold")
BEGINNINGS = (
    *("spark.sql.adaptive.", "spark.sql.files.", "spark.sql.join.", "spark.sql.inMemoryColumnarStorage."),
    *("spark.sql.execution.arrow.", "spark.sql.streaming.stateStore.rocksdb."),
    "spark.sql.streaming.noDataMicroBatches.",
)
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PROVIDERS = tuple(
    f"org.apache.spark.sql.execution.streaming.state.{name}StateStoreProvider" for name in ("HDFSBacked", "RocksDB")
)
TRY_ANYWAY = "Upgrade with it: the rehearsal and the soak compare it with what runs now."


def trial_of(conf: Iterable[str], options: Iterable[str], *, persist: bool = False) -> Trial:
    """Return the trial that a person asks for.

    :param conf: settings, each as ``NAME=VALUE``.
    :param options: of the Kafka sources, as `conf`.
    :raises SpecError: nothing is changed, or something that a trial cannot change.
    """
    settings, given = _pairs(conf), {name.lower(): value for name, value in _pairs(options).items()}
    for name in settings:
        if not name.startswith("spark.sql."):
            raise SpecError(
                f"{name} counts when a driver starts, and a trial runs both settings in one: two drivers would be "
                "needed, and that is not built.",
                next_step=TRY_ANYWAY,
            )
        if name == ARROW:
            raise SpecError(
                f"{name} counts when the script makes its functions, before a trial can change it.",
                next_step=TRY_ANYWAY,
            )
        known = name in SETTINGS or name.startswith(BEGINNINGS) or (name == PROVIDER and settings[name] in PROVIDERS)
        if not known or secret_setting(name, settings[name]):
            raise SpecError(
                f"A trial does not change {name} to that.",
                next_step=f"Change one of {', '.join([*SETTINGS, PROVIDER, *(f'{each}*' for each in BEGINNINGS)])}; or "
                "upgrade with it.",
            )
    unknown = [name for name in given if name not in OPTIONS]
    if unknown:
        raise SpecError(
            f"A trial does not change the option {unknown[0]}: both sides have to read the same records.",
            next_step=f"Change one of {', '.join(OPTIONS)}.",
        )
    odd = [name for name, value in given.items() if not (value.isdecimal() and int(value))]
    if odd:
        raise SpecError(f"The option {odd[0]} is not a number above 0.", next_step="Give one.")
    found = Trial(settings, given, persist)
    if not found.changes:
        raise SpecError("No setting is changed.", next_step="Give --conf NAME=VALUE, --option NAME=VALUE or --persist.")
    return found


def _pairs(words: Iterable[str]) -> dict[str, str]:
    found = [word.partition("=") for word in words]
    wrong = [name for name, sign, value in found if not (name and sign and value)]
    if wrong:
        raise SpecError(f"{wrong[0]!r:.80} is not NAME=VALUE.", next_step="Write it like maxOffsetsPerTrigger=20000.")
    return {name: value for name, _, value in found}


@dataclass(frozen=True)
class Advice:
    """The advice for a stream, and what has become of what was tried.

    :param proposals: what the rules propose now.
    :param missing: a sentence for each query of which not enough is measured.
    :param tried: the trials by query, oldest first.
    """

    proposals: tuple[Proposal, ...]
    missing: tuple[str, ...]
    tried: tuple[Tried, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "proposals": [each.to_json() for each in self.proposals],
            "missing": list(self.missing),
            "tried": [each.to_json() for each in self.tried],
        }


def advice_of(snapshot: Snapshot, wanted_seconds: float | None = None) -> Advice:
    """Return the advice for the driver that holds, and the trials of the stream.

    :param wanted_seconds: how long a batch may take; default: a minute.
    """
    state, beat = snapshot.state, snapshot.holder_heartbeat
    own = (r for r in reversed(snapshot.records) if r.kind == Kind.STANDBY and r.get("incarnation") == state.holder)
    record = next(own, None)
    environment = (record.get("environment") if record is not None else None) or {}
    vitals = beat.vitals.to_json() if beat is not None and beat.vitals is not None else {}
    kept, seen, held = environment.get("queries") or {}, vitals.get("queries") or {}, state.holding_deployment
    live = Live(
        since=state.held_from,
        conf={**(held.release.conf if held is not None else {}), **(environment.get("conf") or {})},
        options={
            name: {key.lower(): str(value) for key, value in (each.get("options") or {}).items()}
            for name, each in kept.items()
        },
        seconds=seconds_per_record(beat),
        reads={
            n: each["rows"] / each["records"] for n, each in seen.items() if each.get("rows") and each.get("records")
        },
    )
    trials = tried(snapshot.records, live)
    described = (record.get("queries") if record is not None else None) or ()
    proposals = advise(
        environment,
        vitals,
        described,
        wanted_seconds=wanted_seconds or WANTED_SECONDS,
        in_vain=in_vain(trials),
    )
    return Advice(proposals, tuple(unmeasured(environment, vitals)), tuple(trials))


def try_out(scene: Scene, trial: Trial, reason: str) -> Want | GiveUp:
    """A driver of the release that holds is to come up beside it and to measure; it never comes to hold."""
    state, snapshot = scene.state, scene.snapshot
    held, wish = state.holding_deployment, state.wish
    if held is None or wish is None or state.open_request is not None or not held.fulfils(wish):
        return _refuse(f"A trial runs beside a holder that is to stay. {snapshot.holder_sentence}", "Try again then.")
    coming = state.candidate
    if coming is not None and not state.family(coming.family):
        return _refuse(f"{coming.author} has asked for a new release, which comes up first.", "Try again after that.")
    beside = snapshot.live_deployments()
    if beside:
        return _refuse(
            f"{beside[-1]} comes up or stands by, and a trial needs the room beside the holder.",
            "Wait until it is gone, or call it off (`airflow streams abort`); what is warm for a roll-back goes after "
            "`upgrade.keep_previous`.",
        )
    advised = (p for p in advice_of(snapshot).proposals if p.change.trial is not None)
    by = next((p for p in advised if p.change.trial is not None and p.change.trial.same_change(trial)), None)
    known = replace(trial, before=seconds_per_record(snapshot.holder_heartbeat))
    known = replace(known, rule=by.rule, predicted=by.predicted) if by is not None else known
    policy = replace(
        held.policy,
        trial=known.to_json(),
        rehearse_seconds=max(TRIAL_SECONDS, held.policy.rehearse_seconds),
        changed_checkpoints=(),
        no_way_back=False,
        adopts=False,
    )
    fields = {"release": held.release.to_json(), "policy": policy.to_json()}
    return Want({"wish": scene.me.wish, "goal": Goal.STAND_BY.value, "reason": reason, **fields})


def _refuse(why: str, next_step: str) -> GiveUp:
    return GiveUp(HandOverFailed(why, next_step=next_step))


def next_step(scene: Scene, trial: Trial, reason: str) -> Step:
    """Return the next step of the task that carries out a trial: it wishes it, reads what was found, and ends it."""
    ends = replace(scene.me, task_id=f"{scene.me.task_id}.end")
    if ends.wish not in scene.state.wishes:
        step = pursue(scene, lambda: try_out(scene, trial, reason))
        if not isinstance(step, Done):
            return step
    family = scene.state.wishes[scene.me.wish].family
    last = replace(scene, me=ends)
    step = pursue(last, lambda: withdraw(last, family, "Its trial is over."))
    step = end_unneeded(last, step, (family,), "Its trial is over.")
    return _end(scene.snapshot, family) if isinstance(step, (Done, Skip)) else step


def _end(snapshot: Snapshot, family: str) -> Done | GiveUp:
    deployment = snapshot.state.family(family)[-1].id
    said = {r.seq for r in snapshot.records if r.kind == Kind.STANDBY and r.get("deployment") == deployment}
    found: Sequence[Tried] = [each for each in tried(snapshot.records, Live()) if each.seq in said]
    if not found:
        return _refuse(
            f"{deployment} has measured nothing: its queries have no batch yet, or its release was published by a "
            "version of this package that knows no trials.",
            "Upgrade the stream once, so that its release has this version's runtime; then try again.",
        )
    return Done(
        {
            "stream": snapshot.stream,
            "holder": snapshot.holding,
            "deployment": deployment,
            "tried": [each.to_json() for each in found],
            "sentences": [each.sentence for each in found],
        }
    )

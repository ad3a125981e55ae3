"""Streams that their YAML has left behind though they run: under another control root, or because it is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, StreamError
from airflow_stream_provider.spec.stream import StreamSpec

# Seconds for looking at all of them.
SECONDS = 10.0


def moved(
    specs: Iterable[StreamSpec], declared: Iterable[Mapping[str, Any]], before: Mapping[str, str]
) -> dict[str, str]:
    """Return the control URLs that streams had, by stream, of those that have another one now.

    :param declared: the declarations of the look before; see `spec.watched.declaration`.
    :param before: what this returned then, without what is settled.
    """
    controls = {str(fields.get("name")): str(fields.get("control")) for fields in declared if fields.get("control")}
    old = {**controls, **before}
    return {spec.name: old[spec.name] for spec in specs if old.get(spec.name, spec.control) != spec.control}


def unsettled(moved: Mapping[str, str], specs: Mapping[str, StreamSpec]) -> dict[str, str]:
    """Return what people must be told of streams that have moved, by stream; one that is left out is settled.

    A stream is settled once a driver has held it under its new control root: before, no driver may use its checkpoint
    there. So is one that, under the old one, has no folder (any more), was stopped, has finished or was never held.

    :param moved: control URLs that they had.
    """
    from airflow_stream_provider.control.bounded import gather
    from airflow_stream_provider.monitoring.root_reads import opened

    for url in {*moved.values(), *(specs[name].control for name in moved)}:
        opened(url)  # here, as threads cannot read Airflow's connections; an error is said below
    reads = {name: partial(_is_left_alone, specs[name], old) for name, old in moved.items()}
    # A stream that cannot be read is not settled.
    answers = gather(reads, SECONDS)
    return {
        name: f"{specs[name].source}: `control` is {specs[name].control} now, where no driver has ever held {name}; it "
        f"was last watched under {moved[name]}, and nobody watches it there now. Correct `control`; or, to move it, "
        "stop it under the old one first: docs/control.md."
        for name, answer in answers.items()
        if answer is not True
    }


def given_up(left: Sequence[StreamSpec], watch: str, told: Collection[str] = ()) -> set[str]:
    """Return the names of those streams that need not be watched any more, though no file describes them.

    They were never deployed, were stopped, have finished, or were never held. Or another watch looks at them, as their
    YAML is in another folder now. Or their control log has gone, too, and people know of that. A stream that cannot be
    read is watched on.

    :param watch: id of the DAG that asks.
    :param told: the streams, and the URLs of control roots, that the watch could not look at as it should, as people
        were told.
    """
    from airflow_stream_provider.control.bounded import gather
    from airflow_stream_provider.monitoring.root_reads import opened

    # Here, as threads cannot read Airflow's connections; what is wrong with one the look says.
    roots = {url: opened(url) for url in {spec.control for spec in left}}
    reads = {spec.name: partial(_is_given_up, spec, watch, roots[spec.control], told) for spec in left}
    answers = gather(reads, SECONDS)
    return {name for name, answer in answers.items() if answer is True}


def _is_given_up(spec: StreamSpec, watch: str, root: ControlRoot | StreamError, told: Collection[str]) -> bool:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.monitoring.samples import last
    from airflow_stream_provider.planning.stream_health import RESTING

    if isinstance(root, StreamError):
        raise root
    hook = StreamHook(spec.name, spec.control, spec.cluster)
    if not hook.exists():
        return spec.name in told or spec.control in told or spec.name not in root.seen()
    if hook.control_log.refresh().phase in RESTING:
        return True
    sample = last(hook.samples)
    return sample is not None and sample.by not in ("", watch)


def _is_left_alone(spec: StreamSpec, old: str) -> bool:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.planning.stream_health import RESTING

    with contextlib.suppress(ControlUnavailable):  # people are told of that root
        new = StreamHook(spec.name, spec.control, spec.cluster)
        if new.exists() and new.control_log.refresh().epoch:
            return True
    hook = StreamHook(spec.name, old, spec.cluster)
    return not hook.exists() or hook.control_log.refresh().phase in RESTING

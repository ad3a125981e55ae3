"""Read one stream for the page: by the functions of command line and form, so that all say the same.

Each may hang, and runs in a thread (`control/bounded.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lag.formatting import duration
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.plain_text import plain
from airflow_stream_provider.links.stream import web_address
from airflow_stream_provider.monitoring.life import life
from airflow_stream_provider.monitoring.life_event import LifeEvent
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.spec.stream import StreamSpec

# The events of a stream's life, and the records that are searched for them: half of those of an upgrade are no event.
EVENTS, RECORDS = 15, 100


@dataclass(frozen=True)
class Answer:
    """Whether a stream can be rolled back now.

    :param word: the answer in a word or two.
    :param lines: what `airflow streams roll-back --dry-run` prints, and the form shows.
    """

    word: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Driver:
    """A driver that does not hold.

    :param id: of the driver; of its deployment while it has not announced itself.
    :param says: what it does.
    """

    id: str
    version: str
    says: str


@dataclass(frozen=True)
class Life:
    """The other drivers, and the last events.

    :param events: the last ones, the newest first.
    :param ui: address of the holder's Spark UI; empty: not known.
    """

    others: tuple[Driver, ...] = ()
    events: tuple[LifeEvent, ...] = ()
    ui: str = ""


def answer(spec: StreamSpec) -> Answer:
    """Return whether it can be rolled back now, and what is read again.

    :raises StreamError: what has to be asked does not answer.
    """
    found = look_ahead(StreamHook.of(spec), Operation.ROLL_BACK)
    return Answer(_word(found), tuple(plain(line) for line in found.lines))


def _word(found: Foreseen) -> str:
    return "No." if found.refused else "There is nothing to do." if found.done else "Yes."


def look_at_life(spec: StreamSpec) -> Life:
    """Return the drivers that stand by or come up, and the last events.

    :raises StreamError: the control log cannot be read now.
    """
    hook = StreamHook.of(spec)
    if not hook.exists():
        return Life()
    # Without its whole history, of up to 2,000 records: that is read for the answer already.
    found = hook.observe(history=False)
    events = reversed(life(hook.control_log.history(RECORDS), found.state)[-EVENTS:])
    beat = found.holder_heartbeat
    return Life(tuple(_others(found)), tuple(events), web_address(beat.ui_url) if beat else "")


def _says(beat: Heartbeat | None, now: float, does: str) -> str:
    """Return what a driver does, by the log or else by its own word, and how old its last sign of life is."""
    if beat is None:
        return does or "has been asked for, and has not reported yet"
    said = f"{does or beat.phase}, last sign of life {duration(max(0.0, now - beat.at))} ago"
    return f"{said}: {plain(beat.message)}" if beat.message else said


def _others(found: Snapshot) -> list[Driver]:
    others = []
    for name in found.live_deployments():
        driver = found.candidate(name)
        beats = [beat for each, beat in found.heartbeats.items() if deployment_of(each) == name]
        beat = max(beats, key=lambda each: each.at, default=None)
        says = _says(beat, found.at, "stands by" if driver is not None else "")
        version = found.state.deployments[name].release.version
        others.append(Driver(driver.id if driver is not None else name, version, says))
    return others

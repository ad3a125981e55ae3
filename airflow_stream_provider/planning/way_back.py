"""Whether the release before can still read what the checkpoint has become. Pure.

Decide in one place whether a stream can be rolled back, for the plan of a roll-back, the command line and the form.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_stream_provider.planning.descent import family
from airflow_stream_provider.planning.snapshot import Snapshot

WHAT_HELPS = (
    "Upgrade to a release that you trust, with the Spark and the settings of this one. Or upgrade to the old release: "
    "its rehearsal says whether it can read the checkpoint, and until then nothing changes."
)


def no_way_back(snapshot: Snapshot, bad: str) -> str:
    """Return why the stream cannot be given back to the release before this deployment; empty if nothing is against it.

    It goes by what the rehearsals of the release have seen, and counts as soon as one of its drivers has held: it may
    have written its first file since.
    """
    state = snapshot.state
    held = [driver for each in sorted(family(state, bad)) for driver in state.of_deployment(each) if driver.epoch]
    said = [sentence for driver in held for sentence in _one_way(snapshot, driver.id)]
    if not said:
        return ""
    release = state.deployments[bad].release
    return (
        f"There is no way back from release {release.version} ({bad}): {' '.join(dict.fromkeys(said))} The release "
        "before may not be able to read that. That was accepted when it was deployed (`no_way_back`)."
    )


def _one_way(snapshot: Snapshot, driver: str) -> Iterable[str]:
    """Yield what a driver's rehearsals have seen: the first is in the log, a later one in its heartbeat alone."""
    beat = snapshot.heartbeats.get(driver)
    for summary in (snapshot.state.incarnations[driver].rehearsal, beat.rehearsal if beat else {}):
        found = summary.get("one_way")
        yield from map(str, found if isinstance(found, (list, tuple)) else ())

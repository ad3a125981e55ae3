"""Say whether the stream runs again: a holder that lives, and commits of every query after the last fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.logs import numeric_names
from airflow_stream_provider.lifecycle.errors import StreamError
from chaos.faults import Nemesis
from chaos.journal import Journal
from chaos.stillness import without
from devstack.commits import written_at

RECOVERY_SECONDS = 180.0


class Recovery:
    """Watches the stream after faults.

    :param nemesis: carries out the faults, and says when the last one was over.
    :param checkpoints: the folder of each query's checkpoint, by name of the query.
    :param journal: gets a problem when the stream does not run again in time, and an entry when it does.
    :param say: called with a line for a person.
    :param asked: says when nobody might hold because a person had asked for that, in seconds since 1970.
    """

    def __init__(
        self,
        nemesis: Nemesis,
        checkpoints: Mapping[str, Place],
        journal: Journal,
        say: Callable[[str], None],
        asked: Callable[[], Sequence[tuple[float, float]]] = tuple,
    ) -> None:
        self._nemesis = nemesis
        self._checkpoints = checkpoints
        self._journal = journal
        self._say = say
        self._asked = asked
        self._noted = 0.0
        self._late = 0.0

    def look(self) -> bool:
        """Look once, and return whether the stream runs: no fault lasts, and it has recovered from the last one."""
        if self._nemesis.lasting:
            return False
        # After that: asking for it may wait until the last fault has just been healed.
        healed = self._nemesis.last_healed
        if not healed or self._noted == healed:
            return True
        seconds = round(without([*self._nemesis.excused, *self._asked()], healed, time.time()), 1)
        if self._runs(healed):
            self._noted = healed
            self._journal.note("recovered", fault=self._nemesis.last_fault, seconds=seconds)
            self._say(f"    runs again after {seconds} s")
            return True
        if seconds > RECOVERY_SECONDS and self._late != healed:
            self._late = healed
            says = f"The stream does not run {RECOVERY_SECONDS:.0f} s after fault {self._nemesis.last_fault} was over."
            self._journal.problem(says)
            self._say(f"    PROBLEM: {says}")
        return False

    def _runs(self, since: float) -> bool:
        with self._nemesis.quiet() as events:
            holds = (events.state.holder or "") in events.beats
        return holds and all(_last_commit(folder / "commits") > since for folder in self._checkpoints.values())


def _last_commit(folder: Place) -> float:
    """Return when a query committed last, in seconds since 1970, by the clock of the kernel."""
    try:
        return written_at(folder / str(max(numeric_names(folder), default=0))) or 0.0
    except (OSError, StreamError):  # the storage does not answer now
        return 0.0

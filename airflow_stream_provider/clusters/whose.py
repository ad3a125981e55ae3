"""Find the owner of a driver that a cluster runs by its command line, and that of an application by its name.

A deployment's id is made of names, and two Airflows may use the same ones: it is unique in its control log only. So
drivers and applications also name their control log.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_stream_provider.control.root import local_folder
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import log_label

# Spark conf, which the JVM of a driver has in its command line.
LOG_CONF = "spark.airflow.stream.log"
# The text in a worker's log in place of a property that `spark.redaction.regex` of that worker matches.
_REDACTED = "*********(redacted)"
# See `lifecycle.ids.application_name`.
_NAMED = re.compile(r"(?P<stream>\S+) .* \[(?P<deployment>\S+)\] (?P<log>\S+)")
# The launcher's arguments by which it reaches the control log.
_WAY_TO_LOG = ("--control", "--brokers")


@dataclass(frozen=True)
class Whose:
    """A deployment of one control log.

    :param deployment: its id.
    :param log: what tells the control log from any other, whatever its URL (`Store.origin`); empty: not known, as while
        its first record cannot be read.
    :param reached_by: the launcher's arguments for the control log, such as ``("--control", "file:///data/streams")``.
        They decide where the driver does not say its log: it was not known, or a worker's log hides it.
    """

    deployment: str
    log: str = ""
    reached_by: tuple[str, ...] = ()

    def runs(self, command: Sequence[str]) -> bool | None:
        """Return whether a command line starts a driver of this deployment.

        None: it names the deployment and does not say of which control log, and reaches its own by another URL or other
        brokers. They may lead to this one all the same, so it is neither adopted nor taken for somebody else's.
        """
        if not names_deployment(command, self.deployment):
            return False
        said = _log_of(command)
        if said and self.log:
            return said == self.log
        return True if _way_to_log(command) == _way_to_log(self.reached_by) else None

    def runs_any(self, commands: Iterable[Sequence[str]]) -> bool | None:
        """Return what `runs` says of one driver, by the command lines of all its processes.

        Some do not name their log; those that do decide. None also when none of them names the deployment.
        """
        found = {self.runs(each) for each in commands if names_deployment(each, self.deployment)}
        return False if False in found else True if True in found else None

    def owns(self, application: str) -> bool:
        """Return whether an application of this name may be of this deployment; see `lifecycle.ids.application_name`.

        The name does not say of which control log it is where that was not known.
        """
        _, named, said = application.partition(f"[{self.deployment}]")
        return bool(named) and (not self.log or said.strip() in ("", log_label(self.log).strip()))


def deployment_named(application: str, stream: str, log: str) -> str:
    """Return the deployment that an application's name says, if it is of this stream and control log; else nothing."""
    named = _NAMED.fullmatch(application)
    ours = named is not None and named["stream"] == stream and named["log"] == log_label(log).strip()
    return named["deployment"] if named is not None and ours and log else ""


def deployment_run(commands: Iterable[Sequence[str]], stream: str, log: str) -> str:
    """Return the deployment that the processes of one driver run, if it is of this stream and control log."""
    words = [_own(each) for each in commands]
    ours = log and any(_log_of(each) == log for each in words)
    named = [dict(pairwise(each)) for each in words if ("--stream", stream) in pairwise(each)]
    return next((each["--deployment"] for each in named if "--deployment" in each), "") if ours else ""


def names_deployment(command: Sequence[str], deployment: str) -> bool:
    """Return whether a command line, or the launcher's arguments, name the deployment."""
    return ("--deployment", deployment) in pairwise(_own(command))


def _own(command: Sequence[str]) -> list[str]:
    """Return a command line without the arguments of the script, which are behind ``--``."""
    words = list(command)
    return words[: words.index("--")] if "--" in words else words


def _log_of(command: Sequence[str]) -> str:
    """Return the control log that a command line says: as a property of the JVM or after ``--conf``; else nothing."""
    words = (word.removeprefix("-D").partition("=") for word in _own(command))
    return next((value for name, _, value in words if name == LOG_CONF and value != _REDACTED), "")


def _way_to_log(command: Sequence[str]) -> dict[str, str]:
    found = {name: value for name, value in pairwise(_own(command)) if name in _WAY_TO_LOG}
    with contextlib.suppress(SpecError, ValueError):  # it is in Kafka, or nonsense that somebody else has submitted
        # Airflow and the drivers mount the folder under one path, so links in it lead to one place.
        found["--control"] = os.path.realpath(local_folder(found.get("--control", "")))
    return found

"""The operations on a stream by hand, in the command line and in the form of ``NAME__operate``."""

from __future__ import annotations

import re
from enum import StrEnum

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.texts import holds_secret, plain

# Length of a reason: it is read in tables, and in notes that Airflow stores in 1,000 characters.
MAX_REASON = 500
# Length of a person's name.
MAX_PERSON = 100


class Operation(StrEnum):
    """A verb. Its value is the command's name, and the choice in the form."""

    STOP = "stop"
    START = "start"
    RESTART = "restart"
    UPGRADE = "upgrade"
    REDEPLOY = "redeploy"
    REWIND = "rewind"
    PROMOTE = "promote"
    ROLL_BACK = "roll-back"
    ABORT = "abort"
    FENCE = "fence"
    RETIRE = "retire"
    ADOPT = "adopt"

    @property
    def description(self) -> str:
        """One sentence for a person."""
        return _WORDS[self][0]

    @property
    def brings_up(self) -> bool:
        """Whether the YAML has a say in which release comes to hold, and how."""
        return self in _BY_YAML

    @property
    def past(self) -> str:
        """The finished operation, as the beginning of a sentence."""
        return _WORDS[self][1]


_BY_YAML = frozenset(
    {
        Operation.START,
        Operation.RESTART,
        Operation.UPGRADE,
        Operation.REDEPLOY,
        Operation.REWIND,
        Operation.PROMOTE,
        Operation.ADOPT,
    }
)

# The fields of a form, and the options of a command, besides the operation and the reason.
ABOUT_FIELDS = {
    "confirmed_by": "For a fence, or an adoption: the person who made sure that the driver, or the old job, neither "
    "runs nor can come back. The cluster is not asked then; empty: it is.",
    "job": "For an adoption: the cluster's id of the job that runs now, which the cluster then ends, such as "
    "driver-20261121023732-0002. Empty: you are asked to end the job, once the new driver stands by.",
    "release": "For a redeployment alone: hash, or its first digits, of the stored release.",
    "to": "For a rewind alone: since when records are read again, such as 2026-11-25T02:00 (UTC) or 2h.",
    "query": "For a rewind alone: the query that reads them; empty: all.",
}
# By operation: what it does, and, as the beginning of a sentence, that it is done.
_WORDS = {
    Operation.STOP: ("Stop the stream at a batch boundary, and end every driver of it.", "Stopped"),
    Operation.START: ("Start a stream that nobody holds, with the release of its YAML.", "Started"),
    Operation.RESTART: (
        "Stop the stream, then start it again; the version of its YAML has to be the one that runs.",
        "Restarted",
    ),
    Operation.UPGRADE: (
        "Deploy the release of the YAML, by a run of NAME__upgrade, which watches it and takes it back.",
        "Upgraded",
    ),
    Operation.REDEPLOY: (
        "Deploy a stored release by its hash, as an upgrade does; none of its files has to come back.",
        "Redeployed",
    ),
    Operation.REWIND: (
        "Read Kafka records again that were read since a time, with the release that holds, by a run of "
        "NAME__upgrade; for queries without state, and sinks that may get records twice.",
        "Rewound",
    ),
    Operation.PROMOTE: (
        "Let the new release that stands by take over now; for an upgrade that does not go on.",
        "Promoted",
    ),
    Operation.ROLL_BACK: ("Give the stream back to the release that held it before.", "Rolled back"),
    Operation.ABORT: ("Call off the new release that comes up or stands by; the holder goes on.", "Called off"),
    Operation.FENCE: (
        "Kill the driver that holds the stream, and let another one take over once it is confirmed dead.",
        "Fenced",
    ),
    Operation.RETIRE: (
        "Stop the stream for good, and say what is left of it to be removed by hand.",
        "Retired for good",
    ),
    Operation.ADOPT: (
        "Take a job over that runs without this provider: the stream's driver rehearses beside it.",
        "Adopted",
    ),
}


def check_reason(reason: str) -> str:
    """Return the reason that a person gave, as it is written into the history.

    :raises SpecError: there is none, it has more than MAX_REASON characters, or it holds what looks like a secret.
    """
    text = plain(" ".join(reason.split()))
    if not text:
        raise SpecError(
            "There is no reason, and the history is to say why this was done.",
            next_step='Give one, such as "disk of host w3 is replaced".',
        )
    if len(text) > MAX_REASON:
        raise SpecError(
            f"The reason has {len(text)} characters, and {MAX_REASON} are allowed.",
            next_step="Say it in a sentence, and the rest elsewhere.",
        )
    if holds_secret(text):
        raise SpecError(
            "The reason holds what looks like a secret, and the history is read by many.",
            next_step="Leave it out.",
        )
    return text


def check_job(id: str) -> str:
    """Return the cluster's id of the job that is to be adopted; empty for none: a person ends it.

    :raises SpecError: it is no id, or there are several.
    """
    text = _not_none(id.strip())
    if text and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", text):
        raise SpecError(
            f"{text!r:.80} is not the id of one job.",
            next_step="Give one, such as driver-20261121023732-0002 or application_1410450250506_0001. Two jobs on one "
            "checkpoint have damaged it already: end one of them first.",
        )
    return text


def check_person(name: str) -> str:
    """Return the name of the person by whose word something is done; empty for none.

    :raises SpecError: it has more than MAX_PERSON characters, holds what looks like a secret, or is the word None.
    """
    text = _not_none(plain(" ".join(name.split())))
    if len(text) > MAX_PERSON or holds_secret(text):
        raise SpecError(
            "The name of the person who confirms that the driver is gone cannot be used.",
            next_step=f"Give a name of up to {MAX_PERSON} characters, and nothing that looks like a secret.",
        )
    return text


def _not_none(text: str) -> str:
    """Refuse what a user's own DAG says by mistake: by it, a fence would not ask the cluster."""
    if text == "None":
        raise SpecError(
            "'None' is what a template makes of a parameter that was left empty.",
            next_step="Write {{ params.NAME or '' }} in the DAG, then trigger it again.",
        )
    return text

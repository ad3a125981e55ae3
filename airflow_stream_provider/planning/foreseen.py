"""The words for a person before an operation on a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.rewind import FoundRewind

# As many digits of a hash tell two releases apart; JSON has all of them.
SHOWN_DIGITS = 12


@dataclass(frozen=True)
class Wanted:
    """The release that would be brought up, and how the YAML wants it.

    :param approval: whether an upgrade to it needs a person's approval.
    :param problem: why no release can be made; version and hash are empty then.
    :param same: whether it runs already, just as the YAML says.
    :param restart: whether an upgrade stops what holds before the new driver is started.
    :param soak: how long an upgrade watches it, in seconds.
    :param hanging: why the driver that holds cannot be waited for; empty: it can.
    :param rewind: from where it reads records again; None: that is not asked for.
    """

    version: str = ""
    hash: str = ""
    approval: bool = False
    problem: str = ""
    same: bool = False
    restart: bool = False
    soak: float = 0.0
    hanging: str = ""
    rewind: FoundRewind | None = None

    def __str__(self) -> str:
        return f"release {self.version} ({self.hash[:SHOWN_DIGITS]})"


@dataclass(frozen=True)
class Held:
    """The holder of the stream, or without one the last.

    :param driver: the incarnation.
    :param release: hash of its release.
    """

    driver: str
    deployment: str
    version: str
    release: str

    def __str__(self) -> str:
        return f"driver {self.driver} with release {self.version} ({self.release[:SHOWN_DIGITS]})"


@dataclass(frozen=True)
class Foreseen:
    """The steps to come.

    :param phase: of the stream now.
    :param held: None = no driver has ever held.
    :param holds: whether `held` holds now.
    :param will: what will be done, a sentence each.
    :param reads_again: what will be read again from the sources.
    :param parts: the operations that it is made of, in order; empty when nothing is to be done.
    :param deployment: that is fenced, called off, promoted or goes back to hold; empty for other operations.
    :param done: why nothing is to be done: it is done already. Empty when something is.
    :param refused: why it cannot be done, and what to do instead; empty when it can.
    :param release: hash of the stored release that is started; empty: none is.
    :param rewind: what `WantedRewind.to_json` makes of where records are read again, and `held`, the deployment that
        holds; None: none are.
    """

    stream: str
    operation: Operation
    phase: str
    held: Held | None
    holds: bool
    will: tuple[str, ...] = ()
    reads_again: str = ""
    parts: tuple[Operation, ...] = ()
    deployment: str = ""
    done: str = ""
    refused: str = ""
    release: str = ""
    rewind: Mapping[str, Any] | None = None

    def refuse(self, why: str) -> Foreseen:
        """Return that it cannot be done, for a reason that was found besides."""
        return replace(self, refused=why, will=(), reads_again="", parts=(), deployment="", release="", rewind=None)

    def followed(self, part: Operation, what: str) -> Foreseen:
        """Return that what an earlier command has asked for is followed, and not asked for twice."""
        will = (f"{what}, which was asked for before, is under way. It is followed.",)
        again = "what was said when it was asked for."
        return replace(self, refused="", done="", will=will, reads_again=again, parts=(part,))

    def same_as(self, other: Foreseen) -> bool:
        """Whether a yes to the other one is a yes to this one."""
        names = ("holds", "held", "parts", "deployment", "release", "rewind")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @property
    def lines(self) -> list[str]:
        """The text for a person, line by line: holder and release, the steps to come, the records that are read again.

        A quoted text, such as a reason, adds no lines of its own: they would pass for ours.
        """
        how = "holds it" if self.holds else "held it last"
        who = f"{self.held} {how}" if self.held else "no driver has ever held it"
        first = f"{self.stream} is {self.phase.replace('_', ' ')}: {who}."
        if self.refused:
            return [first, f"Refused: {self.refused}"]
        if self.done:
            return [_line(first), _line(f"Nothing to do: {self.done}")]
        return [_line(each) for each in (first, *self.will, f"Read again: {self.reads_again}")]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        parts, will = [part.value for part in self.parts], list(self.will)
        return {**asdict(self), "operation": self.operation.value, "parts": parts, "will": will}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Foreseen:
        """Return what `to_json` has made an object of; what else is in it is left out."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        known["operation"] = Operation(known["operation"])
        known["held"] = Held(**known["held"]) if known["held"] else None
        known["parts"] = tuple(Operation(part) for part in known["parts"])
        known["will"] = tuple(known["will"])
        return cls(**known)


def _line(text: str) -> str:
    return " ".join(text.split())

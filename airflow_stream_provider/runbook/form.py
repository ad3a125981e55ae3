"""The fields of the DAGs' forms, and how tasks read them.

Airflow's UI keeps the Trigger button grey while a field is empty whose type has no "null", and a template makes the
text "None" of one that was left empty. It shows a `description` as it is written: there is no Markdown in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

# A hash of a release, or nothing.
DIGITS = "^([0-9a-fA-F]{4,64})?$"
REQUIRED = "Required: "
"""The beginning of the description of a required field."""


def required(about: str, **limits: Any) -> Param:
    """Return a field for text that a person has to fill in.

    :param limits: more of its JSON schema.
    """
    return Param(None, type="string", minLength=1, description=f"{REQUIRED}{about}", **limits)


def optional(about: str, **limits: Any) -> Param:
    """Return a field for text that may be left empty.

    :param limits: more of its JSON schema; the empty text has to be within them, as callers of the REST API send it.
    """
    return Param(None, type=["null", "string"], description=about, **limits)


def lines(default: list[str], about: str) -> Param:
    """Return a field for texts, one a line, which may be left empty."""
    return Param(default, type=["null", "array"], items={"type": "string"}, description=about)


def listed(choices: Mapping[str, str]) -> str:
    """Return what the choices of a field mean, one a line, for its `description_md`."""
    return "\n".join(f"- **{choice}**: {about}" for choice, about in choices.items())


def value(name: str) -> str:
    """Return what a form says in a field for text, for use within a template; empty when nothing."""
    return f"((params.{name} or '') | trim)"


def said(name: str) -> str:
    """Return the template of what a form says in a field for text; empty when nothing."""
    return f"{{{{ {value(name)} }}}}"


def said_lines(name: str) -> str:
    """Return the template of what a form says in a field for texts, as a JSON list."""
    return f"{{{{ (params.{name} or []) | tojson }}}}"

"""The settings of a stream for the page in Airflow's UI: they travel in the serialized DAG of its form.

The API server has no YAML files, and need not mount the folder of the DAGs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from airflow_stream_provider.spec.folder import PLACEHOLDERS
from airflow_stream_provider.spec.stream import StreamSpec

# The settings that a look at a stream takes. No `notify`: recipients are not shown there.
_FIELDS = {"name", "control", "cluster", "kafka", "storage", "storage_connection", "watch"}


@dataclass(frozen=True)
class Shown:
    """A stream to look at.

    :param spec: with those fields alone; None: they cannot be understood.
    :param problem: why its YAML cannot be used; empty: it can.
    """

    name: str
    spec: StreamSpec | None
    problem: str = ""


def as_shown(spec: StreamSpec) -> str:
    """Return it as JSON; of a stream whose YAML cannot be used, what is known of it."""
    fields = spec.model_dump(mode="json", include=_FIELDS, exclude_unset=True)
    # An empty field could not be read.
    known = {name: value for name, value in fields.items() if value not in ("", None)}
    return json.dumps({"stream": known, "problem": spec.problem}, sort_keys=True)


def read_shown(text: str) -> Shown | None:
    """Return what `as_shown` has written; None for anything else, such as a DAG of the user's own has."""
    try:
        said = json.loads(text)
        fields, problem = dict(said["stream"]), str(said["problem"])
        name = str(fields["name"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    # The author of a DAG writes this: it says where to look, and nothing else.
    fields = {key: value for key, value in fields.items() if key in _FIELDS}
    try:
        # A connection that could not be read is none that there is.
        spec = StreamSpec.model_validate({"cluster": "none", **fields, **PLACEHOLDERS})
    except ValidationError:
        return Shown(name, None, problem or "Another version of this provider has written what is known of it.")
    spec._source = Path(f"{name}.yaml")
    return Shown(name, spec, problem)

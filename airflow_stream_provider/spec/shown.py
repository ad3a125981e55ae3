"""The settings of a stream for the page in Airflow's UI: they travel in the serialized DAG of its form.

The API server has no YAML files, and need not mount the folder of the DAGs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import ValidationError

from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import some_of, with_only

# The settings that a look at a stream takes. No `notify`: recipients are not shown there.
_FIELDS = {"name", "control", "cluster", "kafka", "storage", "storage_connection", "watch"}


@dataclass(frozen=True)
class Shown:
    """A stream to look at.

    :param spec: with those fields alone; None: they cannot be understood.
    :param problem: why; empty: they can.
    """

    name: str
    spec: StreamSpec | None
    problem: str = ""


def as_shown(spec: StreamSpec) -> str:
    """Return it as JSON."""
    return json.dumps({"stream": some_of(spec, _FIELDS)}, sort_keys=True)


def read_shown(text: str) -> Shown | None:
    """Return what `as_shown` has written; None for anything else, such as a DAG of the user's own has."""
    try:
        said = json.loads(text)
        fields = dict(said["stream"])
        name = str(fields["name"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    try:
        # The author of a DAG writes this: it says where to look, and nothing else.
        return Shown(name, with_only(fields, _FIELDS, f"{name}.yaml"))
    except ValidationError:
        return Shown(name, None, "Another version of this provider has written what is known of it.")

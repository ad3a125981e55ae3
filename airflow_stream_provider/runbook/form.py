"""The options of the DAGs that `stream_dags` makes, and the fields of their forms.

Airflow's UI keeps the Trigger button grey while a field is empty whose type has no "null", and a template makes the
text "None" of one that was left empty. It shows a `description` as it is written: there is no Markdown in one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, cached_property
from typing import Any

from airflow.sdk import DAG, BaseOperator, Param

from airflow_stream_provider.lifecycle.errors import SpecError

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


# For a control folder or a master that is briefly away. Errors that no retry cures fail the task at once anyway.
RETRIES: Mapping[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}
# A DAG id has 250 characters; a stream's name has 63, a folder's 100 at most.
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{0,100}")
_MAX_TAG = 100
# The arguments that the DAGs depend on.
_OURS = {"dag", "stream", "streams", "task_group", "task_id", "trigger_rule"}
# The arguments that a DAG otherwise reads from Airflow's configuration.
_CONFIGURED = (
    "max_active_tasks",
    "max_active_runs",
    "max_consecutive_failed_dag_runs",
    "disable_bundle_versioning",
)
# The arguments that may be given with these values only. With the first two, one task that failed would stop all later
# runs; tasks find each other's results in XCom, and the result of a look of the watch is brought back.
_FIXED = {"depends_on_past": False, "wait_for_downstream": False, "do_xcom_push": True, "multiple_outputs": False}


@dataclass(frozen=True)
class DagOptions:
    """The arguments of all DAGs and tasks beside our own for each; see `stream_dags`.

    :raises SpecError: one of them cannot be used; nothing was built.
    """

    default_args: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None
    pool: str | None = None
    executor_config: Mapping[str, Any] | None = None
    access_control: Mapping[str, Any] | None = None
    owner: str | None = None
    tags: Collection[str] = ()
    prefix: str = ""

    def __post_init__(self) -> None:
        for name in ("queue", "pool", "owner"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value.strip()):
                raise _refused(name, f"{value!r:.80} is not a name", f'Write {name}="streams", say, or leave it out')
        for name in ("default_args", "executor_config", "access_control"):
            value = getattr(self, name)
            if value is not None and not _named(value):
                raise _refused(name, f"{type(value).__name__} is not a dict with names", f"Write {name}={{...}}")
        listed = isinstance(self.tags, Collection) and not isinstance(self.tags, str)
        if not listed or not all(isinstance(tag, str) and 0 < len(tag) <= _MAX_TAG for tag in self.tags):
            raise _refused(
                "tags", f"{self.tags!r:.80} is no list of texts", f'Write tags=["team"], of {_MAX_TAG} at most'
            )
        if not isinstance(self.prefix, str) or not _PREFIX.fullmatch(self.prefix):
            says = f"{self.prefix!r:.120} cannot begin a DAG id"
            raise _refused("prefix", says, "Use up to 100 of letters, digits, '_', '.' and '-'")
        self._check_default_args()

    def dag_id(self, name: str, verb: str) -> str:
        """Return the id of a DAG."""
        return f"{self.prefix}{name}__{verb}"

    def split(self, dag_id: str) -> tuple[str, str] | None:
        """Return name and verb of a DAG id; None when it cannot be one of these DAGs."""
        name, found, verb = dag_id.removeprefix(self.prefix).rpartition("__")
        return (name, verb) if found and dag_id.startswith(self.prefix) else None

    def dag(self, name: str, verb: str, *, tags: Sequence[str], **settings: Any) -> DAG:
        """Return a DAG without tasks; it has no schedule unless the settings say one."""
        more = {"access_control": dict(self.access_control)} if self.access_control is not None else {}
        return DAG(
            self.dag_id(name, verb),
            **{"schedule": None, "catchup": False, **self._configured, **settings, **more},
            default_args=self._task_args,
            tags=[*tags, *self.tags],
        )

    @cached_property
    def _configured(self) -> Mapping[str, Any]:
        """The defaults of DAGs in Airflow's configuration. Each DAG would read it anew: half of the time of parsing."""
        any_dag = DAG("any", schedule=None)
        return {name: getattr(any_dag, name) for name in _CONFIGURED}

    @cached_property
    def _task_args(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in ("queue", "pool", "executor_config", "owner")}
        found = {**RETRIES, **self.default_args, **{name: value for name, value in said.items() if value is not None}}
        # Airflow would begin a new `upgrade.schedule` with the last time before now: with an upgrade, at once.
        found.pop("start_date", None)
        return found

    def _check_default_args(self) -> None:
        for name, value in self.default_args.items():
            if name in _OURS or bool(value) != _FIXED.get(name, bool(value)):
                raise _refused(
                    "default_args", f"{name!r} would change what the tasks do", "Remove it, or write a DAG of your own"
                )
            if name not in _known():
                import difflib

                close = difflib.get_close_matches(name, _known(), n=1)
                hint = f"Perhaps {close[0]!r} is meant" if close else "Use those of airflow.sdk.BaseOperator"
                raise _refused("default_args", f"no task has an argument {name!r}", hint)


def _named(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _refused(name: str, what: str, next_step: str) -> SpecError:
    return SpecError(f"stream_dags(): `{name}` cannot be used: {what}.", next_step=f"{next_step}.", option=name)


@cache
def _known() -> frozenset[str]:
    return frozenset(inspect.signature(BaseOperator.__init__).parameters) - {"self", "kwargs"}

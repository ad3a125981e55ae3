"""Refuse secrets in the Spark conf, in the script's arguments and environment, and in the arguments of `notify`.

The first three are stored in the control log and shown by the cluster, so they are checked before anything is published
or declared. `lifecycle/secrets.py` recognizes secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError
from airflow_stream_provider.lifecycle.secrets import holds_secret, secret_option, secret_setting

_OPTION = re.compile(r"(?P<dashes>-{0,2})(?P<name>[\w.-]+?)(?:=(?P<value>.*))?", re.DOTALL)
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
# Settings of Spark that say where a secret is, or how one is used: name and value.
_REFERENCES = re.compile(
    r"spark\.kubernetes\.(?:driver|executor)\.secretKeyRef\.[A-Za-z_][\w.-]*\n[a-z0-9][a-z0-9.-]*:[\w.-]+"
    r"|spark\.kubernetes\.(?:driver|executor)\.secrets\.[a-z0-9][a-z0-9.-]*\n/[\w./-]*"
    r"|spark\.kafka\.clusters\.[\w-]+\.sasl\.token\.mechanism\nSCRAM-SHA-(?:256|512)",
    re.ASCII,
)
_ELSEWHERE = (
    "Put it where the driver runs instead: its environment, spark-defaults.conf on the cluster, or a file that the "
    "application reads."
)


class SecretInConf(SpecError, ClusterError):
    """A setting of a job looks like a secret. `fields["key"]` is its key; its value appears nowhere."""


def refuse_secret_conf(conf: Mapping[str, str]) -> None:
    """Check that no entry of a Spark conf looks like a secret.

    :raises SecretInConf: by its key or its value, one does. The message names the key only.
    """
    settings = {key: value for key, value in conf.items() if not _REFERENCES.fullmatch(f"{key}\n{value}")}
    _refuse(settings, "The Spark conf key {key} looks like a secret, and the conf is visible to everyone who sees the ")


def refuse_secret_environment(environment: Mapping[str, str]) -> None:
    """Check that none of a stream's environment variables looks like a secret.

    :raises SecretInConf: by its name or its value, one does. The message gives the name only.
    """
    _refuse(
        environment, "The environment variable {key} looks like a secret, and it is visible to everyone who sees the "
    )


def refuse_secret_arguments(arguments: Sequence[str]) -> None:
    """Check that none of the script's arguments looks like a secret.

    :raises SpecError: an option is named like one, with its value after ``=`` or in the next argument, or a text holds
        one. The message gives the option's name or the argument's position, never a value.
    """
    for position, (argument, after) in enumerate(zip_longest(arguments, arguments[1:], fillvalue=""), 1):
        named = False
        parts = _OPTION.fullmatch(argument)
        # -Dname=value is Java's: a dotted property name, with the word anywhere in it.
        if parts and not argument.startswith("-D"):
            value = after if parts["value"] is None else parts["value"]
            named = secret_option(parts["name"], value) and bool(parts["dashes"] or parts["value"])
            secret = named or holds_secret(parts["value"] or "")
        else:
            secret = holds_secret(argument)
        if secret:
            what = f"The argument {argument.partition('=')[0]!r}" if named else f"Argument {position}"
            raise SpecError(
                f"{what} looks like a secret, and arguments are visible to everyone who sees the cluster.",
                next_step="Put it where the driver runs instead: its environment, or a file that the application "
                "reads.",
                position=position,
            )


def refuse_secret_values(arguments: Mapping[str, Any]) -> None:
    """Check that none of the named arguments of a recipient of alerts looks like a secret, however deep it lies.

    A template in their place is none: ``{{ conn.pager.password }}`` is rendered when an alert is sent.

    :raises SpecError: an argument is named like one, or its text holds one. The message gives the name, never a value.
    """
    for path, name, text in _leaves("", arguments):
        text = _TEMPLATE.sub("", text)
        named = secret_option(name, text) or name.lower().endswith("authorization")
        if text.strip() and (named or holds_secret(text)):
            raise SpecError(
                f"The argument {path!r} looks like a secret, and the YAML and Airflow's pages show it.",
                next_step="Put it into an Airflow connection and name that, or write a template such as "
                "{{ conn.pager.password }}.",
                name=path,
            )


def _leaves(path: str, value: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each text or number within a value: where it is, the last name on the way there, and the text."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), part, str(key))
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from _leaves(f"{path}.{number}", part, name)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield path, name, str(value)


def _refuse(settings: Mapping[str, str], sentence: str) -> None:
    for key, value in settings.items():
        if secret_setting(key, str(value)):
            raise SecretInConf(sentence.format(key=key) + "cluster.", next_step=_ELSEWHERE, key=key)

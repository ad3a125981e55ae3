"""Refuse secrets in the Spark conf, in the script's arguments and in its environment.

All three are stored in the control log and shown by the cluster, so they are checked before anything is published or
declared. What a secret looks like is in `lifecycle/secrets.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError
from airflow_stream_provider.lifecycle.secrets import holds_secret, secret_option, secret_setting

_OPTION = re.compile(r"(?P<dashes>-{0,2})(?P<name>[\w.-]+?)(?:=(?P<value>.*))?", re.DOTALL)
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
    _refuse(conf, "The Spark conf key {key} looks like a secret, and the conf is visible to everyone who sees the ")


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


def _refuse(settings: Mapping[str, str], sentence: str) -> None:
    for key, value in settings.items():
        if secret_setting(key, str(value)):
            raise SecretInConf(sentence.format(key=key) + "cluster.", next_step=_ELSEWHERE, key=key)

"""Refuse secrets in the Spark conf and in the script's arguments.

Both are stored in the control log, stand on the driver's command line and are shown in Spark's web UIs, so they are
checked before anything is published or declared. The check goes by names: it finds a setting that is named like a
secret, not a secret by its looks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError

# What Spark itself redacts (the default of spark.redaction.regex), other spellings of it, and Kafka's
# sasl.jaas.config, which holds a password although its name does not say so.
_WORDS = r"(?:secret|passw(?:or)?d|passphrase|token|access[._-]?key|sasl\.jaas\.config)"
_NAME = re.compile(_WORDS, re.IGNORECASE)
# Inside a text only an assignment counts (-Dx.password=…, a JAAS line, JSON): a jar's name may contain "token".
_ASSIGNMENT = re.compile(rf"{_WORDS}[\w.-]*(?:[\"']\s*:|[\"']?\s*=)\s*\S", re.IGNORECASE)
# An argument's own name has to end in one of the words: --max-tokens, --tokenizer and --password-file hold no secret.
_ENDS_IN_NAME = re.compile(rf"{_WORDS}\Z", re.IGNORECASE)
_ARGUMENT = re.compile(r"(?P<dashes>-{0,2})(?P<name>[\w.-]+?)(?:=(?P<value>.*))?", re.DOTALL)


class SecretInConf(SpecError, ClusterError):
    """A Spark conf entry looks like a secret. `fields["key"]` is its key; its value appears nowhere."""


def refuse_secret_conf(conf: Mapping[str, str]) -> None:
    """Check that no entry of a Spark conf looks like a secret.

    :raises SecretInConf: a key contains one of the words, or a value assigns something to a name that does. The
        message names the key only.
    """
    for key, value in conf.items():
        if _NAME.search(key) or _ASSIGNMENT.search(str(value)):
            raise SecretInConf(
                f"The Spark conf key {key} looks like a secret, and the conf is visible to everyone who sees the "
                "cluster.",
                next_step="Put it where the driver runs instead: its environment, spark-defaults.conf on the cluster, "
                "or a file that the application reads.",
                key=key,
            )


def refuse_secret_arguments(arguments: Sequence[str]) -> None:
    """Check that none of the script's arguments looks like a secret.

    :raises SpecError: an option's name ends in one of the words, with its value after ``=`` or in the next argument,
        or a text assigns something to such a name. The message gives the option's name or the argument's position,
        never a value.
    """
    for position, argument in enumerate(arguments, 1):
        parts = _ARGUMENT.fullmatch(argument)
        # -Dname=value is Java's: a dotted property name, with the word anywhere in it.
        if parts and not argument.startswith("-D"):
            named = bool(_ENDS_IN_NAME.search(parts["name"])) and bool(parts["dashes"] or parts["value"])
            secret = named or bool(_ASSIGNMENT.search(parts["value"] or ""))
        else:
            named, secret = False, bool(_ASSIGNMENT.search(argument))
        if secret:
            what = f"The argument {argument.partition('=')[0]!r}" if named else f"Argument {position}"
            raise SpecError(
                f"{what} looks like a secret, and arguments are visible to everyone who sees the cluster.",
                next_step="Put it where the driver runs instead: its environment, or a file that the application "
                "reads.",
                position=position,
            )

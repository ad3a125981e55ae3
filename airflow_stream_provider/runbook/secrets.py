"""Refuse what looks like a secret: conf and arguments of a release stand in the control log for ever."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from airflow_stream_provider.model.errors import SpecError

# Spark's own `spark.redaction.regex`, and the one Kafka setting that holds a password without saying so.
_SECRET_KEY = re.compile(r"(?i)secret|passw(or)?d|passphrase|token|access[.]?key|sasl\.jaas\.config")
# `-Djavax.net.ssl.keyStorePassword=...` inside extraJavaOptions, `password="..."` inside a JAAS line.
_SECRET_INSIDE = re.compile(r"(?i)(secret|passw(or)?d|passphrase|access[.]?key)\w*\s*[=:]\s*\S")
_SECRET_ARGUMENT = re.compile(r"(?i)-{1,2}([\w-]*[_-])?(secret|passw(or)?d|passphrase|token|access[_-]?key)(=.*|$)")

_TODO = (
    "Give it to the drivers by the cluster's own means (environment, a file, spark-defaults.conf of the worker); "
    "what a release carries is shown to everybody."
)


def check_conf(conf: Mapping[str, str]) -> None:
    """Raise SpecError naming the Spark setting, never its value, when it looks like a secret."""
    for key, value in conf.items():
        if _SECRET_KEY.search(key) or _SECRET_INSIDE.search(value):
            raise SpecError(f"the Spark setting {key!r} looks like a secret.", todo=_TODO, key=key)


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise SpecError naming the option, never its value, when an argument looks like a secret."""
    for position, argument in enumerate(arguments, 1):
        if _SECRET_ARGUMENT.match(argument):
            option = argument.partition("=")[0]
            raise SpecError(f"the argument {option!r} looks like a secret.", todo=_TODO, position=position)
        if _SECRET_INSIDE.search(argument):
            raise SpecError(f"argument {position} looks like a secret.", todo=_TODO, position=position)

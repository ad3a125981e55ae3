"""The job that a cluster is asked to run, one driver, without secrets in what people can read of it.

Conf, arguments and environment are stored in the control log and shown by the cluster, so they are checked before
anything is published or declared. `lifecycle/texts.py` recognizes secrets.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from airflow_stream_provider.clusters.spark_defaults import When, defaults
from airflow_stream_provider.clusters.whose import LOG_CONF, Whose, names_deployment
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError
from airflow_stream_provider.lifecycle.texts import holds_secret, secret_option, secret_setting

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


@dataclass(frozen=True)
class Job:
    """One driver to start: the launcher of a release with its arguments and Spark conf.

    :param stream: name of the stream.
    :param deployment: id of the deployment.
    :param app_name: Spark application name. It must contain ``[<deployment>]``, by which the executors are found.
    :param release_dir: the release's folder as the driver's machine sees it, or its URL. It holds launcher.py, the
        zip of the runtime, the script and the py-files.
    :param arguments: arguments of the launcher. They must contain ``--deployment <deployment>``, by which the driver
        is found.
    :param py_files: py-files of the release, relative to `release_dir`. The zip of the runtime is added to them.
    :param stream_folder: the stream's folder under the control URL, in which a local cluster keeps its drivers;
        empty: it has none, and the cluster keeps them in a folder of its own user on this machine.
    :param log: what tells the stream's control log from any other (`Store.origin`), which may have a deployment of this
        id, too. Empty: not known.
    :param conf: Spark conf, without secrets.
    :param environment: environment variables of the driver and its executors, without secrets.
    :raises ValueError: the application name or the arguments do not name the deployment.
    """

    stream: str
    deployment: str
    app_name: str
    release_dir: str
    arguments: tuple[str, ...]
    stream_folder: str = field(kw_only=True)
    py_files: tuple[str, ...] = ()
    log: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if f"[{self.deployment}]" not in self.app_name:
            raise ValueError(f"app_name {self.app_name!r} does not contain [{self.deployment}]")
        if not names_deployment(self.arguments, self.deployment):
            raise ValueError(f"the arguments do not contain --deployment {self.deployment}")

    @property
    def whose(self) -> Whose:
        """The owner of its driver, by which the cluster is searched for it."""
        return Whose(self.deployment, self.log, self.arguments)

    @property
    def is_fetched(self) -> bool:
        """Whether the release is fetched by URL: Spark then gets the launcher only, which fetches the rest."""
        return "://" in self.release_dir

    @property
    def launcher(self) -> str:
        """Path of the launcher on the driver's machine, or its URL."""
        return posixpath.join(self.release_dir, LAUNCHER)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that Spark puts on the Python path of the driver and the executors."""
        names = () if self.is_fetched else (RUNTIME_ZIP, *self.py_files)
        return tuple(posixpath.join(self.release_dir, name) for name in names)

    def with_files(self, conf: Mapping[str, str]) -> dict[str, str]:
        """Return a conf with `files`, as spark-submit makes it of --py-files.

        The driver puts them on its Python path, and executors fetch them.
        """
        keys = ("spark.submit.pyFiles", "spark.files")
        return {**conf, **{key: ",".join((*self.files, *filter(None, [conf.get(key)]))) for key in keys}}

    def properties(self, *cases: When) -> dict[str, str]:
        """Return the Spark conf, with the executors' environment, the application's name and whose it is set.

        :param cases: of its cluster, for what it is given where it does not say otherwise (`spark_defaults`).
        :raises SecretInConf: a key or value of the conf or the environment looks like a secret.
        """
        refuse_secret_conf(self.conf)
        refuse_secret_environment(self.environment)
        return {
            **defaults(self.conf, *cases),
            **{f"spark.executorEnv.{name}": value for name, value in self.environment.items()},
            **{key: str(value) for key, value in self.conf.items() if key != LOG_CONF},
            "spark.app.name": self.app_name,
            "spark.airflow.stream.deployment": self.deployment,
            **({LOG_CONF: self.log} if self.log else {}),
        }

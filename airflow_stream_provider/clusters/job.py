"""What a cluster is asked to run."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from airflow_stream_provider.clusters.secrets import refuse_secret_conf
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP


@dataclass(frozen=True)
class Job:
    """One driver to start: the launcher in a release's folder, with its arguments and Spark conf.

    :param app_name: contains ``[<deployment>]``: the executors are found by it again.
    :param release_dir: folder as the driver's machine sees it, with launcher.py, the runtime's zip, script, py-files.
    :param arguments: the launcher's, with ``--deployment <deployment>``: the driver is found by it again.
    :param py_files: the release's own, relative to `release_dir`; the runtime's zip goes with them by itself.
    :param conf: Spark conf; no secrets.
    """

    stream: str
    deployment: str
    app_name: str
    release_dir: str
    arguments: tuple[str, ...]
    py_files: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if f"[{self.deployment}]" not in self.app_name:
            raise ValueError(f"app_name {self.app_name!r} does not contain [{self.deployment}]")
        if not names_deployment(self.arguments, self.deployment):
            raise ValueError(f"the arguments do not contain --deployment {self.deployment}")

    @property
    def launcher(self) -> str:
        """Path of the launcher."""
        return posixpath.join(self.release_dir, LAUNCHER)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of everything that goes on the Python path of driver and executors."""
        return tuple(posixpath.join(self.release_dir, name) for name in (RUNTIME_ZIP, *self.py_files))

    def properties(self) -> dict[str, str]:
        """Return the Spark conf, with what identifies the deployment.

        :raises SecretInConf: a key or value looks like a secret.
        """
        refuse_secret_conf(self.conf)
        return {
            **{key: str(value) for key, value in self.conf.items()},
            "spark.app.name": self.app_name,
            "spark.airflow.stream.deployment": self.deployment,
        }


def names_deployment(arguments: Sequence[str], deployment: str) -> bool:
    """Return whether a launcher's arguments name the deployment; the script's own, after ``--``, do not count."""
    own = list(arguments)
    if "--" in own:
        own = own[: own.index("--")]
    return any(pair == ("--deployment", deployment) for pair in pairwise(own))

"""The job that a cluster is asked to run: one driver."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_stream_provider.clusters.secrets import refuse_secret_conf, refuse_secret_environment
from airflow_stream_provider.clusters.whose import LOG_CONF, Whose, names_deployment
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP

# A file on HDFS is closed once the NameNode has heard of its last block from a DataNode. A client that asks before that
# sleeps, by default 400 ms, and doubles that for each of 5 retries (DFSOutputStream.completeFile of Hadoop). A batch
# writes half a dozen small files one after another. Ten retries from 10 ms on wait about as long in all: 10 s.
HDFS_DEFAULTS = {
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.retries": "10",
}


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

    def properties(self) -> dict[str, str]:
        """Return the Spark conf, with the executors' environment, the application's name and whose it is set.

        Where it does not say otherwise, clients of HDFS close files sooner (`HDFS_DEFAULTS`).

        :raises SecretInConf: a key or value of the conf or the environment looks like a secret.
        """
        refuse_secret_conf(self.conf)
        refuse_secret_environment(self.environment)
        return {
            **HDFS_DEFAULTS,
            **{f"spark.executorEnv.{name}": value for name, value in self.environment.items()},
            **{key: str(value) for key, value in self.conf.items() if key != LOG_CONF},
            "spark.app.name": self.app_name,
            "spark.airflow.stream.deployment": self.deployment,
            **({LOG_CONF: self.log} if self.log else {}),
        }

"""Run a small YARN, and an HDFS for it, that ask for Kerberos: SPNEGO on the web, tokens for containers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_stream_provider.clusters import ClusterConnection, yarn_api
from airflow_stream_provider.clusters.connection import YarnSettings
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.hadoop_conf import write_properties
from devstack.hdfs import Hdfs
from devstack.kdc import REALM, Kdc
from devstack.processes import Processes
from devstack.yarn import JVM, Yarn

USER = "streams"
"""Who submits drivers."""
PRINCIPALS = (USER, "HTTP/localhost", *(f"{service}/localhost" for service in ("rm", "nm", "hdfs")))
_HDFS = ("namenode", "datanode")
_OPENED = "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED"


def core_site(kdc: Kdc) -> dict[str, str]:
    """Return the settings of core-site.xml that make a Hadoop ask for Kerberos, on the web, too."""
    web = "hadoop.http.authentication"
    secret = kdc.folder / "http-secret"  # which signs the cookies of the web
    secret.write_text("not hushed")
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
        f"{web}.type": "kerberos",
        f"{web}.simple.anonymous.allowed": "false",
        f"{web}.kerberos.principal": f"HTTP/localhost@{REALM}",
        f"{web}.kerberos.keytab": str(kdc.all_keys),
        f"{web}.signature.secret.file": str(secret),
    }


def hdfs_site(kdc: Kdc) -> dict[str, str]:
    """Return the settings of an HDFS that asks for Kerberos. Its DataNode has no ports of root's."""
    return {
        # One for both, as they share a process, which logs in once.
        **{f"dfs.{name}.kerberos.principal": f"hdfs/localhost@{REALM}" for name in _HDFS},
        **{f"dfs.{name}.keytab.file": str(kdc.all_keys) for name in _HDFS},
        "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "dfs.web.authentication.kerberos.keytab": str(kdc.all_keys),
        "dfs.block.access.token.enable": "true",
        "ignore.secure.ports.for.testing": "true",
        "dfs.permissions.enabled": "false",  # nobody has made the user's folder
    }


def kerberos_hdfs(folder: Path, processes: Processes, kdc: Kdc) -> Hdfs:
    """Return an HDFS that asks for Kerberos, and is not started yet."""
    sites = {"core-site": core_site(kdc), "hdfs-site": hdfs_site(kdc)}
    return Hdfs(folder, processes, sites=sites, jvm=[f"-Djava.security.krb5.conf={kdc.conf}", _OPENED])


class KerberosYarn(Yarn):
    """A YARN that asks for Kerberos, as `Yarn` otherwise; its containers run as the user who runs it.

    :param folder: for its files; emptied at the first start.
    :param processes: where its processes are started.
    :param kdc: which runs already.
    :param hdfs: which applications are staged in; it runs already.
    """

    def __init__(self, folder: Path, processes: Processes, kdc: Kdc, hdfs: Hdfs) -> None:
        self.kdc = kdc
        self.hdfs = hdfs
        services = {"resourcemanager": "rm", "nodemanager": "nm"}
        site = {
            **{f"yarn.{name}.principal": f"{who}/localhost@{REALM}" for name, who in services.items()},
            **{f"yarn.{name}.keytab": str(kdc.all_keys) for name in services},
            **{f"yarn.{name}.webapp.spnego-principal": f"HTTP/localhost@{REALM}" for name in services},
            **{f"yarn.{name}.webapp.spnego-keytab-file": str(kdc.all_keys) for name in services},
        }
        core = {**core_site(kdc), "fs.defaultFS": hdfs.url}
        super().__init__(folder, processes, settings=site, core_site=core)
        # The name that its ticket is for.
        self.web_url = self.web_url.replace("127.0.0.1", "localhost")
        self._jvm = (*JVM, f"-Djava.security.krb5.conf={kdc.conf}", _OPENED)

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection of type ``spark`` to it."""
        plain = super().connection
        keytab = base64.b64encode(self.kdc.keytab(USER)).decode()
        return {**plain, "login": "", "extra": {**plain["extra"], "principal": f"{USER}@{REALM}", "keytab": keytab}}

    @property
    def conf(self) -> dict[str, str]:
        """Spark conf for applications; their JVMs find the KDC."""
        found = super().conf
        options = f"-Djava.security.krb5.conf={self.kdc.conf}"
        names = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
        return {**found, **{name: f"{found[name]} {options}" for name in names}}

    @property
    def environment(self) -> dict[str, str]:
        """What a machine that submits to it has in its environment."""
        return {"HADOOP_CONF_DIR": str(self.write_conf("client", {})), "KRB5_CONFIG": str(self.kdc.conf)}

    def write_conf(self, name: str, settings: Mapping[str, str]) -> Path:
        """Write the configuration of one process, or of a client, and return its folder."""
        folder = super().write_conf(name, settings)
        write_properties(folder / "hdfs-site.xml", hdfs_site(self.kdc))
        return folder

    def ask(self, path: str) -> dict[str, Any]:
        """Return what the ResourceManager's REST says; {} if it does not answer."""
        try:
            fields = self.connection
            settings = YarnSettings.of(ClusterConnection("yarn", extra=fields["extra"]))
            return yarn_api.get(yarn_api.find_active(settings), path) or {}
        except ClusterError:
            return {}

"""The end of the log of a driver on YARN, from the NodeManager that keeps it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from airflow_stream_provider.clusters.log_tail import READ_BYTES, tail
from airflow_stream_provider.clusters.worker_hosts import WorkerHosts
from airflow_stream_provider.clusters.yarn_api import Manager, send
from airflow_stream_provider.lifecycle.errors import ClusterError

# A NodeManager puts some lines of its own around a file.
_LIMIT = 2 * READ_BYTES
# NodeManagers write "Last 4096 bytes of prelaunch.err :", "Last 4096 bytes of stderr :".
_TORN = re.compile(r"(\bLast \d{1,9} bytes of [^\n:]{0,200}:[ \t]*+(?:\r?\n)?+)[^\n]*(?:\n|\Z)")
_BEGINS, _ENDS = "\nLogContents:\n", "\nEnd of LogType:"


def driver_log_tail(manager: Manager, app: Mapping[str, Any], hosts: WorkerHosts) -> str:
    """Return the end of what a driver has written, or else what YARN says of its end.

    Its Python writes to stdout, as its JVM passes that on. Once logs are aggregated, the node has them no more.
    """
    try:
        # Such as http://node1:8042/node/containerlogs/container_1410450250506_0001_01_000001/alice
        container = urlsplit(str(app["amContainerLogs"])).path.split("/containerlogs/")[1].partition("/")[0]
        url = manager.node_url(app["amHostHttpAddress"])
        address = hosts.address(url)

        def read(file: str) -> str:
            page = f"{url}/ws/v1/node/containerlogs/{quote(container, safe='')}/{file}?size={-READ_BYTES}"
            text = send("GET", page, manager.asker, address, _LIMIT).text()
            return text.partition(_BEGINS)[2].rpartition(_ENDS)[0]

        found = tail(stderr=read("stderr"), stdout=read("stdout"))
    except (ClusterError, KeyError, IndexError):
        found = ""
    return found or tail(diagnostics=without_torn_lines(str(app.get("diagnostics") or "")))


def without_torn_lines(diagnostics: str) -> str:
    """Return what YARN says of an end without the lines that it has cut: their beginning may have named a secret.

    It quotes the last bytes of a container's files, from wherever they begin.
    """
    return _TORN.sub(r"\1", diagnostics)

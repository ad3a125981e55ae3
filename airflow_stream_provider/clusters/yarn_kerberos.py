"""Run drivers on a YARN with Kerberos: asked by SPNEGO, and submitted by spark-submit, which gets delegation tokens.

Spark's client takes the application's id itself, so the id that is written down before is a tag of ours
(`yarn_submission`). A tag is sent once, by the process that has made it. Another process that finds one in the log
waits until its application is there, or can come no more: then the deployment has failed, and a new run begins.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import ClassVar

from airflow_stream_provider.clusters import kerberos, spark_submit
from airflow_stream_provider.clusters import yarn_api as api
from airflow_stream_provider.clusters.cluster import SubmitUnclear
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.kerberos import KerberosLogin
from airflow_stream_provider.clusters.traits import Traits
from airflow_stream_provider.clusters.yarn import YarnCluster
from airflow_stream_provider.clusters.yarn_connection import YarnSettings
from airflow_stream_provider.clusters.yarn_submission import (
    COME_SECONDS,
    SUBMIT_SECONDS,
    is_submission,
    made_at,
    may_come,
    new_submission,
)
from airflow_stream_provider.lifecycle.errors import ClusterError


class KerberosYarnCluster(YarnCluster):
    """Drivers on a YARN with Kerberos; implements `Cluster`.

    :param settings: what the connection says.
    :param login: as whom YARN is asked, and drivers run.
    """

    traits: ClassVar[Traits] = replace(YarnCluster.traits, name="YARN with Kerberos")

    def __init__(self, settings: YarnSettings, login: KerberosLogin) -> None:
        super().__init__(settings)
        self._login = login
        # When each was made, by the monotonic clock.
        self._unsent: dict[str, float] = {}

    def check(self, job: Job) -> None:
        """Check this machine, the keytab, and then what is checked on every YARN.

        :raises ClusterError: the library for Kerberos, Spark or Hadoop's configuration is missing here, or no ticket
            is to be had.
        """
        kerberos.check(self._login)
        spark_submit.check_here(self._settings)
        super().check(job)

    def reserve(self, job: Job) -> str:
        """Return a new tag, without an application yet. Only this process can send it, and for a bounded time."""
        api.find_active(self._settings)
        id = new_submission(time.time())
        self._unsent[id] = time.monotonic()
        return id

    def submit(self, job: Job, reserved: str = "") -> str:
        """Submit the job's driver with a tag by spark-submit; one that was tried before is only looked for."""
        id = reserved or self.reserve(job)
        if not is_submission(id):
            raise ClusterError(
                f"{id} was reserved while the cluster's connection had no principal, so it is not sent.",
                next_step="Start a new run. Nothing was submitted.",
                submission=id,
            )
        made = self._unsent.pop(id, None)
        if made is not None:
            # Whichever clock is ahead: this machine's may have been set since.
            since = max(time.time() - made_at(id), time.monotonic() - made)
            try:
                spark_submit.run(job, self._settings, self._login, id, time.monotonic() + SUBMIT_SECONDS - since)
            except ClusterError:
                if not self._has(id):
                    raise
            self._taken(id)
        elif not self._has(id):
            raise SubmitUnclear(self._why_unclear(id), next_step="Nothing to do: it is looked for.", submission=id)
        return id

    def _has(self, id: str) -> bool:
        return api.driver(api.find_active(self._settings), id) is not None

    def _why_unclear(self, id: str) -> str:
        if not may_come(id, time.time()):
            return f"YARN has no application of {id}, and none can come any more."
        left = made_at(id) + COME_SECONDS - time.time()
        return f"YARN has no application of {id}; should it be on its way, it can come for {left:.0f} s."

"""A real Airflow: scheduler, triggerer, DAG processor and API server as processes of their own, on SQLite."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import secrets
import shutil
import sqlite3
import sys
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from devstack.airflow_api import AirflowApi
from devstack.cache import cache_folder, once
from devstack.errors import StackError
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes, stop

START_SECONDS = 300.0
PARALLELISM = 4
USER = "admin"
# --skip-serve-logs: those servers would listen on every address, and the API server reads the files itself.
PARTS: Mapping[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}


class Airflow:
    """Airflow's four parts around one database, in a home of their own.

    :param folder: AIRFLOW_HOME; emptied first. `airflow` on the command line works with AIRFLOW_HOME set to it
    :param dags_folder: where the DAG processor looks
    :param variables: more environment variables for every part, such as AIRFLOW_CONN_*; tasks see them too
    """

    user = USER

    def __init__(
        self, folder: Path, processes: Processes, *, dags_folder: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.dags_folder = dags_folder.absolute()
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.password = secrets.token_urlsafe(12)
        self.api = AirflowApi(self.url, self.user, self.password)
        self.parts: dict[str, Process] = {}
        self._variables = dict(variables or {})
        self._processes = processes

    def start(self) -> None:
        """Make the database, start the four parts, and wait until all of them are healthy and ours."""
        if not self.dags_folder.is_dir():
            raise StackError(
                f"There is no DAGs folder {self.dags_folder}.", next_step="Create it, or name another one."
            )
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        self._write_settings()
        # Migrating takes as long as all four parts need to start, and always ends with the same empty database.
        empty = once(cache_folder() / "airflow" / version("apache-airflow-core"), self._migrate) / self._database.name
        shutil.copy(empty, self._database)
        for part in PARTS:
            self.start_part(part)
        self.wait_healthy()

    def start_part(self, part: str) -> Process:
        """Start one of `PARTS`; again, after a test has killed it."""
        self.parts[part] = self._processes.start(
            f"airflow-{part}", [sys.executable, "-m", "airflow", *PARTS[part]], env=self.environment, folder=self.folder
        )
        return self.parts[part]

    def stop(self) -> None:
        """Stop the four parts; tasks that run are not waited for longer than STOP_SECONDS."""
        stop(*self.parts.values())

    def wait_healthy(self) -> None:
        """Wait until every part beats and the API server takes our password, which a stranger on its port would not."""
        self._processes.wait_for("Airflow to be healthy", self.api.healthy, START_SECONDS, *self.parts.values())

    @property
    def environment(self) -> dict[str, str | None]:
        """The variables of every part; None removes one that the caller's shell has set for another Airflow."""
        foreign = {name: None for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))}
        return {
            **foreign,
            "AIRFLOW_HOME": str(self.folder),
            # Airflow renames its processes; without this, over the environment that others can see, and so over the
            # mark of the stack.
            "SPT_NOENV": "1",
            **self._variables,
        }

    def _migrate(self, made: Path) -> None:
        self._processes.run(
            "airflow-db",
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env=self.environment,
            folder=self.folder,
            seconds=START_SECONDS,
        )
        # Readers then do not wait for a writer, of which there are about eight. The file keeps this.
        with contextlib.closing(sqlite3.connect(self._database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        shutil.move(self._database, made)

    @property
    def _database(self) -> Path:
        return self.folder / "airflow.db"

    def _write_settings(self) -> None:
        passwords = self.folder / "passwords.json"
        passwords.write_text(json.dumps({USER: self.password}))
        settings = configparser.ConfigParser(interpolation=None)
        settings.read_dict(
            {
                "core": {
                    "dags_folder": self.dags_folder,
                    "load_examples": False,
                    "dagbag_import_timeout": 120,
                    "executor": "LocalExecutor",
                    "parallelism": PARALLELISM,
                    "fernet_key": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                    "simple_auth_manager_users": f"{USER}:admin",
                    "simple_auth_manager_passwords_file": passwords,
                    "execution_api_server_url": f"{self.url}/execution/",
                },
                "database": {
                    "sql_alchemy_conn": f"sqlite:///{self._database}?timeout=60",
                    "load_default_connections": False,
                },
                "api": {
                    "host": HOST,
                    "port": self.port,
                    "base_url": self.url,
                    "workers": 1,
                    "secret_key": secrets.token_urlsafe(32),
                },
                "api_auth": {"jwt_secret": secrets.token_urlsafe(64)},
                # Where Spark works on the same few cores, the defaults (5 to 50 s) are not enough.
                "workers": {"execution_api_timeout": 60},
                "dag_processor": {
                    "refresh_interval": 10,
                    "min_file_process_interval": 30,
                    "parsing_processes": 1,
                    "dag_file_processor_timeout": 180,
                },
                # A test kills the scheduler or a task's process and wants to see what follows within a minute or two.
                "scheduler": {
                    "orphaned_tasks_check_interval": 15,
                    "task_instance_heartbeat_timeout": 60,
                    "enable_health_check": False,
                },
                "usage_data_collection": {"enabled": False},
            }
        )
        with open(os.open(self.folder / "airflow.cfg", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            settings.write(file)

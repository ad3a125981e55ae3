"""Run Airflow on SQLite: scheduler, triggerer, DAG processor and API server, each as a process."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
import threading
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from devstack.airflow_api import AirflowApi
from devstack.cache import cache_folder, once
from devstack.errors import StackError
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes, stop

START_SECONDS = 600.0
DATABASE = "airflow.db"  # in AIRFLOW_HOME
PARALLELISM = 4
SUPERVISE_SECONDS = 1.0
USER = "admin"
# --skip-serve-logs: these log servers would listen on all addresses, and the API server reads the files itself.
PARTS: Mapping[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}


class Airflow:
    """An Airflow with its own AIRFLOW_HOME and database.

    :param folder: AIRFLOW_HOME; emptied at the start. With AIRFLOW_HOME set to it, the command `airflow` works too.
    :param processes: where its processes are started.
    :param dags_folder: folder of the DAGs.
    :param variables: more environment variables for its processes and tasks, such as AIRFLOW_CONN_*.
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
        self._stopped = threading.Event()

    def start(self) -> None:
        """Create the database, start the four processes, and wait until all are healthy.

        :raises StackError: the DAGs folder does not exist, or Airflow is not healthy within 600 s.
        """
        if not self.dags_folder.is_dir():
            raise StackError(f"There is no DAGs folder {self.dags_folder}.", next_step="Create it, or use another one.")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        self._write_settings()
        shutil.copy(empty_database(self._processes), self._database)
        for part in PARTS:
            self.start_part(part)
        self.wait_healthy()
        threading.Thread(target=self._supervise, daemon=True).start()

    def start_part(self, part: str) -> Process:
        """Start one of `PARTS`, also again after a test has killed it."""
        self.parts[part] = self._processes.start(
            f"airflow-{part}", [sys.executable, "-m", "airflow", *PARTS[part]], env=self.environment, folder=self.folder
        )
        return self.parts[part]

    def stop(self) -> None:
        """Stop the four processes. Running tasks get 10 s to end."""
        self._stopped.set()
        stop(*self.parts.values())

    def wait_healthy(self) -> None:
        """Wait until all processes report a heartbeat and the API server accepts our password.

        The password shows that no other server answers on the port.

        :raises StackError: that takes more than 600 s, or a process ends.
        """
        self._processes.wait_for("Airflow to be healthy", self.api.healthy, START_SECONDS, *self.parts.values())

    def _supervise(self) -> None:
        """Start parts again that end by themselves, as systemd, Kubernetes and Compose do in production.

        One that was killed stays down: whoever kills it wants to see what happens without it.
        """
        while not self._stopped.wait(SUPERVISE_SECONDS):
            for part, process in list(self.parts.items()):
                if (process.popen.poll() or 0) <= 0:
                    continue
                with contextlib.suppress(StackError), process.log.open("a") as log:  # the stack is being stopped
                    log.write(f"devstack: ended with exit code {process.popen.returncode}; started again\n")
                    self.start_part(part)

    @property
    def environment(self) -> dict[str, str | None]:
        """Environment variables of all processes. None removes one that the shell has set for another Airflow."""
        # The locks of local drivers go with the folder.
        return {**_environment(self.folder), "XDG_RUNTIME_DIR": str(self.folder), **self._variables}

    @property
    def _database(self) -> Path:
        return self.folder / DATABASE

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
                # While Spark uses the same few cores, the defaults (5 to 50 s) are too short.
                "workers": {"execution_api_timeout": 60},
                "dag_processor": {
                    "refresh_interval": 10,
                    "min_file_process_interval": 30,
                    "parsing_processes": 1,
                    "dag_file_processor_timeout": 180,
                },
                # Tests kill the scheduler or a task, and wait until Airflow notices: a minute or two.
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


def empty_database(processes: Processes) -> Path:
    """Return the file of an SQLite database that `airflow db migrate` has made; copy it.

    It is made once on this machine: that takes as long as the start of all four processes, and its result is always
    the same.

    :param processes: where the migration is run.
    :raises StackError: it fails, or takes longer than 600 s.
    """

    def migrate(made: Path) -> None:
        with tempfile.TemporaryDirectory() as home:
            environment = {
                **_environment(Path(home)),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
            }
            command = [sys.executable, "-m", "airflow", "db", "migrate"]
            processes.run("airflow-db", command, env=environment, folder=made, seconds=START_SECONDS)
            database = Path(home, DATABASE)
            # With WAL, readers do not wait for the about eight writers. The setting is stored in the file.
            with contextlib.closing(sqlite3.connect(database)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
            shutil.move(database, made)

    return once(cache_folder() / "airflow" / version("apache-airflow-core"), migrate) / DATABASE


def _environment(home: Path) -> dict[str, str | None]:
    foreign = {name: None for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))}
    return {
        **foreign,
        "AIRFLOW_HOME": str(home),
        # Airflow sets process titles. Without this it would overwrite the visible environment, and with it the mark of
        # the stack.
        "SPT_NOENV": "1",
    }

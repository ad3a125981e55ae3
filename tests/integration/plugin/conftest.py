"""A real Airflow with the page: its API server, its users, its database. Only the drivers of the streams are played."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from airflow_stream_provider.plugin import BUNDLE
from devstack.airflow import Airflow
from devstack.stack import LocalStack
from tests.support.browser import CHROMIUM
from tests.support.control_root import new_log
from tests.support.snapshots import RUNNING, UPGRADED
from tests.support.story import write

ROOT = Path(__file__).parents[3]
USERS = "admin:admin,anna:viewer,bert:viewer"
DAG_FILE = "from airflow_stream_provider import stream_dags\n\nglobals().update(stream_dags('{0}', prefix='{0}.'))\n"
# Nothing runs here: a watch that looks by itself would fence and bring back what the tests read.
YAML = """\
name: orders
application: apps/orders.py
version: "2"
cluster: spark_here
control: {}
watch: {{schedule: null}}
"""
# For tests of the page in Airflow's UI.
needs_page = pytest.mark.skipif(
    CHROMIUM is None or not BUNDLE.is_file(),
    reason="Chromium (Debian's package `chromium`) or the page's script (`make page`) is missing. Left out: the page "
    "in Airflow's UI.",
)
TIMEOUT = 300.0
LOADS = 10


@dataclass
class Site:
    """A running Airflow with two teams, anna's and bert's, each with a stream of the same name."""

    airflow: Airflow
    dags: Path
    control: Path

    def password(self, user: str) -> str:
        return str(json.loads((self.airflow.folder / "passwords.json").read_text())[user])

    def token(self, user: str) -> str:
        login = {"username": user, "password": self.password(user)}
        answer = requests.post(f"{self.airflow.url}/auth/token", json=login, timeout=TIMEOUT)
        return str(answer.json()["access_token"])

    def get(self, path: str, user: str = "") -> requests.Response:
        """Ask as a browser does, with a cookie; `user`: empty for somebody who has not logged in.

        A page on which the server had no time to read a stream is loaded again, as it says.
        """
        cookies = {"_token": self.token(user)} if user else {}
        url = f"{self.airflow.url}/{path}"
        for _ in range(LOADS):
            answer = requests.get(url, cookies=cookies, timeout=TIMEOUT, allow_redirects=False)
            if "did not answer the API server within" not in answer.text:
                break
        return answer

    def page(self, user: str, dag_id: str = "") -> str:
        """Return the text that a person reads."""
        answer = self.get(f"streams/stream?dag_id={dag_id}" if dag_id else "streams/", user)
        assert answer.status_code == 200, answer.text
        return html.unescape(re.sub(r"<[^>]*>", "", answer.text))

    def command(self, *words: str) -> str:
        """Return what `airflow streams` prints."""
        environment = {**os.environ, **self.airflow.environment}
        done = subprocess.run(
            [sys.executable, "-m", "airflow", "streams", *words],
            env={name: value for name, value in environment.items() if value is not None},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.stdout, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("page")
    dags, control = folder / "dags", folder / "control"
    (dags / "apps").mkdir(parents=True)
    (dags / "apps" / "orders.py").write_text("x = 1\n")
    for team, records in (("anna", UPGRADED), ("bert", RUNNING)):
        (control / team).mkdir(parents=True)
        url = f"file://{control / team}"
        write(new_log(url), *records)
        (dags / team).mkdir()
        (dags / team / "orders.yaml").write_text(YAML.format(url))
        (dags / f"{team}.py").write_text(DAG_FILE.format(team))
    variables = {
        "AIRFLOW_CONN_SPARK_HERE": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "PYTHONPATH": str(ROOT),
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.support.rights_by_prefix.RightsByPrefix",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": USERS,
    }
    with LocalStack(folder / "stack", kafka=False, spark=False, dags_folder=dags, variables=variables) as stack:
        for team in ("anna", "bert"):
            stack.airflow.api.wait_for_dag(f"{team}.orders__operate")
        yield Site(stack.airflow, dags, control)

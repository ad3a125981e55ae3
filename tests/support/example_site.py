"""The example stream on a whole stack of its own, as a team has it that has not deployed anything yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.environment import DemoEnvironment, create_topics, lay_out
from devstack.stack import LocalStack

ROOT = Path(__file__).parents[2]


@contextmanager
def example_site(folder: Path, *dags: str) -> Iterator[tuple[LocalStack, DemoEnvironment]]:
    """Run Kafka, Spark and Airflow, with the stream of `dags/`, a short soak and no warm release.

    :param dags: ids of its DAGs that are unpaused.
    """
    (folder / "dags").mkdir()
    with LocalStack(folder / "stack", dags_folder=folder / "dags", worker_cores=9) as stack:
        lay_out(
            ROOT / "dags",
            folder / "dags",
            brokers=stack.bootstrap_servers,
            data=folder / "data",
            changes={"upgrade": {"soak": "5s", "keep_previous": "0s"}, "conf": stack.cluster.conf},
        )
        site = DemoEnvironment.at(folder / "dags", stack.airflow.api)
        create_topics(site.brokers)
        for dag in dags:
            site.airflow.wait_for_dag(dag)
            site.airflow.unpause(dag)
        yield stack, site

"""The cluster of docs/examples/own_cluster.py as it stands there, with a Spark that runs nothing but the launcher."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from airflow_stream_provider.clusters import Cluster, ClusterConnection

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "own_cluster.py"
# Every option of the example has a value.
SPARK_SUBMIT = f"""#!/bin/sh
while [ "${{1#--}}" != "$1" ]; do shift 2; done
exec {sys.executable} "$@"
"""


def connection(folder: Path) -> ClusterConnection:
    """Return the connection of a cluster in a folder."""
    script = folder / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(SPARK_SUBMIT)
    script.chmod(0o755)
    return ClusterConnection("own", extra={"folder": str(folder / "drivers"), "spark": str(folder / "spark")})


def open_cluster(given: ClusterConnection) -> Cluster:
    """Return what the page shows."""
    module = ModuleType("own_cluster")
    exec(compile(EXAMPLE.read_text(), str(EXAMPLE), "exec"), vars(module))
    found: Cluster = module.OwnCluster(Path(given.extra["folder"]), Path(given.extra["spark"]))
    return found

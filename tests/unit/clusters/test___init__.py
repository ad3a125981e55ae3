"""The names of the package: all there, and none of them costs whoever does not use it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_stream_provider import clusters

ROOT = Path(__file__).parents[3]


NAMES = re.findall(r"import (\w+) as \1", Path(clusters.__file__).read_text())


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name: str) -> None:
    assert callable(getattr(clusters, name))


def test_no_other_is() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = clusters.nothing


def test_importing_the_package_imports_no_module_of_it() -> None:
    code = (
        "import sys; from airflow_stream_provider import clusters as package\n"
        "print(*(name for name in sys.modules if name.startswith(package.__name__ + '.')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_a_look_has_the_client_of_its_cluster_before_its_time_to_ask_begins() -> None:
    code = (
        "import sys\n"
        "from airflow_stream_provider.clusters import ClusterConnection\n"
        "from airflow_stream_provider.monitoring.readings import ClusterLook\n"
        "for host in ('spark://127.0.0.1', 'k8s://http://127.0.0.1:1'):\n"
        "    ClusterLook('there', ClusterConnection(host))\n"
        "    print('kubernetes.client' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-2:] == ["False", "True"]

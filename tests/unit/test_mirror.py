"""The tests mirror the tree: who knows a module's path knows where its tests are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_stream_provider

ROOT = Path(airflow_stream_provider.__file__).parent
TESTS = Path(__file__).parents[1]
KINDS = ("unit", "integration", "system")

# Modules without a test file of their name, each with the file that covers it and why it is there.
ELSEWHERE = {
    "audit/checks/clients.py": ("unit/audit/test_checks.py", "one table has a case for each check of every module"),
    "audit/checks/cluster.py": ("unit/audit/test_checks.py", "as above"),
    "audit/checks/defaults.py": ("unit/audit/test_checks.py", "as above"),
    "audit/checks/live.py": ("unit/audit/test_checks.py", "as above"),
    "audit/checks/records.py": ("unit/audit/test_checks.py", "as above"),
    "audit/checks/replication.py": ("unit/audit/test_checks.py", "as above"),
    "audit/checks/retention.py": ("unit/audit/test_checks.py", "as above"),
    "clusters/kubernetes_api.py": ("unit/clusters/test_kubernetes.py", "its answers are what that cluster goes by"),
    "clusters/pod_look.py": ("unit/clusters/test_kubernetes.py", "as above"),
    "audit/read.py": ("integration/audit/test_audit.py", "only real brokers say what can be read of them"),
    "chaos/__main__.py": ("system/test_chaos.py", "only a whole run shows what it does"),
    "kafka/requests.py": ("integration/kafka/test_client.py", "only real brokers answer as they do"),
    "kafka/topic_requests.py": (
        "integration/kafka/test_control_topic_setup.py",
        "only real brokers say what they refuse",
    ),
    "kafka/cluster_requests.py": (
        "integration/audit/test_audit.py",
        "the audit needs three brokers, and alone asks this",
    ),
    "monitoring/cluster_look.py": (
        "unit/monitoring/test_folder_look.py",
        "it is a part of one look",
    ),
    "monitoring/folder_alerts.py": ("unit/monitoring/test_folder_look.py", "as above"),
    "monitoring/folder_reading.py": ("unit/monitoring/test_folder_look.py", "as above"),
    "monitoring/kafka_look.py": ("integration/monitoring/test_folder_look.py", "as above, with a real broker"),
    "monitoring/root_reads.py": ("unit/monitoring/test_folder_look.py", "as above"),
    "monitoring/stream_reading.py": ("unit/monitoring/test_folder_look.py", "as above"),
    "monitoring/telling.py": ("unit/monitoring/test_watch_incident.py", "who is told of the watch is told by it"),
    "planning/asked.py": ("unit/planning/test_foresee.py", "it is what all that is foreseen has in common"),
    "releases/idle_files.py": ("unit/hooks/test_clean_up.py", "it is a part of one clean-up"),
    "releases/obstore_errors.py": ("integration/releases/test_objects.py", "only real servers say how they refuse"),
    "releases/open_place.py": ("unit/releases/test_folder.py", "what it opens is a place"),
}
# Statements inside functions; a module with fewer has nothing that could be wrong by itself.
FEW = 5


def statements(path: Path) -> int:
    """Return how many statements a module has inside functions, without docstrings."""
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    inner = {id(node) for function in functions for node in ast.walk(function) if node is not function}
    return sum(
        isinstance(node, ast.stmt) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for function in functions
        if id(function) not in inner
        for line in function.body
        for node in ast.walk(line)
    )


# The examples of a run are loaded by Airflow alone, and the hook by Python.
CHAOS = [p for p in sorted((ROOT.parent / "chaos").rglob("*.py")) if p.parent.name not in ("dags", "clock_hook")]
MODULES = {
    **{str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))},
    **{str(path.relative_to(ROOT.parent)): path for path in CHAOS},
}


@pytest.fixture(scope="module")
def with_logic() -> set[str]:
    """Which modules could be wrong by themselves."""
    return {name for name, path in MODULES.items() if statements(path) > FEW}


def namesakes(module: str) -> list[Path]:
    path = Path(module)
    places = (TESTS / kind / path.parent / f"test_{path.name}" for kind in KINDS)
    return [place for place in places if place.exists()]


def names_imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def test_each_module_has_its_test_file(with_logic: set[str]) -> None:
    without = [module for module in sorted(with_logic - ELSEWHERE.keys()) if not namesakes(module)]
    assert without == [], "write a test file of each name, or say in ELSEWHERE which test covers it"


@pytest.mark.parametrize("module", ELSEWHERE)
def test_an_exception_is_needed_and_names_a_test_that_is_there(module: str, with_logic: set[str]) -> None:
    test, why = ELSEWHERE[module]
    assert module in with_logic
    assert namesakes(module) == []
    assert (TESTS / test).is_file()
    assert why


@pytest.mark.parametrize("kind", KINDS)
def test_no_test_file_imports_another(kind: str) -> None:
    wrong = {
        f"{path.relative_to(TESTS)} imports {name}"
        for path in sorted((TESTS / kind).rglob("*.py"))
        for name in names_imported(path)
        if name.startswith(("tests.unit", "tests.integration", "tests.system", "."))
        or any(part.startswith("test_") and not part.endswith("support") for part in name.split(".")[:-1])
        or name.rpartition(".")[2].startswith("test_")
    }
    assert wrong == set()


def test_what_has_few_lines_is_counted_without_its_docstrings(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text('"""Doc."""\nA = 1\n\n\ndef f():\n    """Doc."""\n    if A:\n        return 1\n    return 2\n')
    assert statements(module) == 3

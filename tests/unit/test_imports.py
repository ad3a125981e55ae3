"""Which room may import which: one order, no import upwards, no circle; and what travels to the driver."""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import airflow_stream_provider
from airflow_stream_provider.control.releases import runtime_zip

PACKAGE = airflow_stream_provider.__name__
ROOT = Path(airflow_stream_provider.__file__).parent

# A room may import the rooms of the lines above its own, and itself.
ORDER = """
lifecycle
control
checkpoint
runtime clusters
kafka releases sinks
lag
audit spec tuning
planning
hooks
monitoring
links triggers notifications
operators sensors
cli runbook
plugin example_dags
"""
LEVELS = {room: level for level, line in enumerate(ORDER.split("\n")) for room in line.split()}


def name_of(path: Path) -> str:
    parts = [PACKAGE, *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(module: str) -> Iterator[str]:
    """Every module of the package that this one imports: at its top, in a function, or for type checking only."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            found = name if name in MODULES else name.rpartition(".")[0]
            if found in MODULES:
                yield found


def room(module: str) -> str:
    return module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]


def test_every_room_has_its_place_in_the_order() -> None:
    assert {room(name) for name, path in MODULES.items() if path.parent != ROOT} == set(LEVELS)


def test_no_import_runs_upwards() -> None:
    wrong = {
        f"{module} imports {other}"
        for module in MODULES
        if (mine := room(module)) in LEVELS
        for other in imports(module)
        if other != PACKAGE and room(other) != mine and LEVELS.get(room(other), 99) >= LEVELS[mine]
    }
    assert wrong == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {name: {other for other in imports(name) if other != name} for name in MODULES if name != PACKAGE}
    # A package's __init__ is imported with each of its modules: it may name them, and they need not name it.
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    left = {name: others - packages for name, others in left.items() if name not in packages}
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    assert left == {}


def test_the_drivers_zip_holds_what_the_launcher_and_scripts_reach_and_nothing_else() -> None:
    """Its bytes are part of each release's hash: rewording an alert must not change what is published."""
    # The script imports the sinks.
    reached, waiting = set(), [f"{PACKAGE}.runtime.launcher", f"{PACKAGE}.sinks"]
    while waiting:
        name = waiting.pop()
        if name in reached or name == PACKAGE:
            continue
        reached.add(name)
        waiting += imports(name)
        parent = name.rpartition(".")[0]
        waiting.append(parent)
    with zipfile.ZipFile(io.BytesIO(runtime_zip())) as archive:
        held = {name_of(ROOT.parent / name) for name in archive.namelist()}
    assert held - {PACKAGE} == reached

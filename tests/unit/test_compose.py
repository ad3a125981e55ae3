"""No engine runs here: the Compose file is held against the Compose schema, and against what we promise of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yaml"
ONE_SHOT = {"airflow-init", "data-init", "demo"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found = yaml.safe_load(COMPOSE.read_text())
    assert isinstance(found, dict)
    return found


def test_it_follows_the_compose_schema() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_service_that_stays_has_a_health_check(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {name for name, service in services.items() if "healthcheck" not in service} == ONE_SHOT


def test_every_image_is_pinned(compose: dict[str, Any]) -> None:
    images = [service["image"] for service in compose["services"].values()]
    for dockerfile in (ROOT / "docker").glob("*/Dockerfile"):
        images += re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.MULTILINE)
    assert all(re.search(r":\d+\.\d+(\.\d+)?(-|$)", image) for image in images), images


def test_no_password_stands_in_the_file() -> None:
    for name in ("PASSWORD", "SECRET", "FERNET_KEY"):
        for line in re.findall(rf"^ *\w*{name}\w*: (.*)$", COMPOSE.read_text(), re.MULTILINE):
            assert line.startswith(("${", "/auth/")), line
    assert re.findall(r"\$\{[A-Z_]+\}", COMPOSE.read_text()) == [], "a missing variable must be an error: ${NAME:?…}"


def test_nothing_is_published_beyond_this_machine(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_dependency_exists(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for name, need in service.get("depends_on", {}).items():
            healthy = need["condition"] == "service_healthy"
            assert not healthy or "healthcheck" in services[name], f"{name} could never be healthy"


def test_the_env_file_names_every_secret(tmp_path: Path) -> None:
    subprocess.run(["make", "-f", str(ROOT / "Makefile"), ".env"], cwd=tmp_path, check=True, capture_output=True)
    made = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines())
    assert set(made) == set(re.findall(r"\$\{([A-Z_]+):\?", COMPOSE.read_text()))
    assert all(len(value) >= 32 for value in made.values())
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0

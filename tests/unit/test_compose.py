"""The Compose file against the Compose schema, and against what we promise of it; `make test-compose` runs it."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from airflow.api_fastapi.core_api.datamodels.monitor import (
    BaseInfoResponse,
    DagProcessorInfoResponse,
    HealthInfoResponse,
    SchedulerInfoResponse,
    TriggererInfoResponse,
)
from cryptography.fernet import Fernet

from airflow_stream_provider.spec.stream import load_spec
from demo.__main__ import _arguments as arguments_of_the_demo
from demo.environment import TOPICS

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yaml"
ONE_SHOT = {"airflow-init", "data-init", "demo", "kafka-init"}


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


def test_what_dockerfiles_copy_exists(compose: dict[str, Any]) -> None:
    builds = [service["build"] for service in compose["services"].values() if "build" in service]
    assert {build["dockerfile"] for build in builds} == {"docker/airflow/Dockerfile", "docker/spark/Dockerfile"}
    for build in builds:
        context = ROOT / build["context"]
        lines = re.findall(r"^COPY (?!--from)(.*) \S+$", (context / build["dockerfile"]).read_text(), re.MULTILINE)
        assert lines
        for name in (word for line in lines for word in line.split() if not word.startswith("--")):
            assert (context / name).exists(), f"{build['dockerfile']} copies {name}"


def test_a_change_of_the_package_does_not_install_everything_again() -> None:
    before = (ROOT / "docker" / "airflow" / "Dockerfile").read_text().partition("\nRUN pip install")[0]
    assert re.findall(r"^COPY (?:--\S+ )*(.*) \S+$", before, re.MULTILINE) == ["requirements.txt"]


def test_the_image_has_all_that_the_package_is_built_from() -> None:
    copied = (ROOT / "docker" / "airflow" / "Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    for name in ("pyproject.toml", project["project"]["readme"], *project["project"]["license-files"], *wheel):
        assert re.search(rf"^COPY (?:.* )?{re.escape(name)} ", copied, re.MULTILINE), name


def jars_of_ivy(folder: Path) -> tuple[Path, Path]:
    """What the script of the Spark image would find: the jars that it names, and their sums; with other contents."""
    script = (ROOT / "docker" / "spark" / "take_jars.sh").read_text()
    [names] = re.findall(r"^for jar in (.*); do$", script, re.MULTILINE)
    ivy, sums = folder / "ivy", folder / "sums"
    ivy.mkdir()
    for name in (f"{each}.jar" for each in names.split()):
        (ivy / f"org.group_{name}").write_text(name)
        with sums.open("a") as file:
            file.write(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (ivy / "org.group_another-1.0.jar").write_text("what Spark has itself")
    return ivy, sums


def take_jars(ivy: Path, sums: Path, target: Path) -> int:
    script = ROOT / "docker" / "spark" / "take_jars.sh"
    return subprocess.run(["bash", script, ivy, sums, target], capture_output=True, check=False).returncode


def test_only_jars_with_the_known_hash_get_into_the_spark_image(tmp_path: Path) -> None:
    ivy, sums = jars_of_ivy(tmp_path)
    assert take_jars(ivy, sums, tmp_path / "taken") == 0
    taken = {path.name for path in (tmp_path / "taken").iterdir()}
    assert len(taken) == 4
    assert all(f"  {name}\n" in (ROOT / "devstack" / "jars.sha256").read_text() for name in taken)
    assert all(re.search(r"-\d", name) and "another" not in name for name in taken)
    for name in taken:
        jar = ivy / f"org.group_{name}"
        jar.write_text("something else")
        assert take_jars(ivy, sums, tmp_path / "refused") == 1
        jar.unlink()
        assert take_jars(ivy, sums, tmp_path / "missing") == 1
        jar.write_text(name)


def test_nothing_that_was_fetched_runs_as_root_before_it_is_checked() -> None:
    text = (ROOT / "docker" / "spark" / "Dockerfile").read_text()
    fetching, image = text.split("\nFROM ", 2)[-2:]
    assert "spark-submit" in fetching
    assert "USER root" not in fetching
    assert "spark-submit" not in image
    assert re.findall(r"--from=connector (\S+)", image) == ["/tmp/connector/"]
    assert "/tmp/ivy/jars /tmp/jars.sha256 /tmp/connector\n" in fetching


def test_a_folder_that_everybody_may_write_to_is_like_tmp() -> None:
    modes = re.findall(r"chmod (\S+)", (ROOT / "Makefile").read_text())
    assert modes == ["1777"]


def test_a_task_that_has_deferred_is_known_to_have_ended_before_it_goes_on(compose: dict[str, Any]) -> None:
    # Airflow 3.3 takes it for killed otherwise (its issue 71580).
    assert int(compose["x-airflow"]["environment"]["AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL"]) <= 1


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
    assert len(made["AIRFLOW_JWT_SECRET"]) >= 64, "Airflow signs with HMAC-SHA512"
    Fernet(made["AIRFLOW_FERNET_KEY"])
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


def mounts(service: dict[str, Any]) -> dict[PurePosixPath, str]:
    """Where each mount of a service is, and what is mounted there."""
    found = {}
    for volume in service.get("volumes", []):
        source, target, *_ = volume.split(":")
        found[PurePosixPath(target)] = source
    return found


def words_of(service: dict[str, Any]) -> list[str]:
    """The words of a service's command lines, those of its scripts too."""
    lines: list[str] = [*service.get("entrypoint", []), *service.get("command", [])]
    lines += service.get("healthcheck", {}).get("test", [])
    return [word for line in lines for word in shlex.split(line)]


# What the images have: their own programs, and what our Dockerfiles copy there.
IN_IMAGES = ("/opt/spark", "/opt/kafka", "/src", "/dev/tcp", "/tmp")


def test_every_path_of_a_command_line_is_mounted_or_in_the_image(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        paths = {
            path
            for text in [*words_of(service), *service.get("environment", {}).values(), service.get("working_dir", "")]
            for path in re.findall(r"(?<![\w:/.}@-])/[a-z][\w./-]*", str(text).removeprefix("file://"))
        }
        for path in map(PurePosixPath, paths):
            inside = any(path.is_relative_to(mount) for mount in mounts(service))
            assert inside or any(path.is_relative_to(image) for image in IN_IMAGES), f"{name} has no {path}"


def test_the_demo_reads_the_streams_yaml_that_is_mounted(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = compose["services"]["demo"]
    python, option, module, *arguments = demo["entrypoint"]
    assert (python, option, module) == ("python", "-m", "demo")
    monkeypatch.setattr(sys, "argv", ["demo", *arguments])
    args = arguments_of_the_demo()

    def on_this_machine(path: Path) -> Path:
        inside = PurePosixPath(demo["working_dir"]) / path
        mount = next(mount for mount in mounts(demo) if inside.is_relative_to(mount))
        return ROOT / mounts(demo)[mount] / inside.relative_to(mount)

    yaml_file = on_this_machine(args.dags) / "streams" / "orders.yaml"
    spec = load_spec(yaml_file)
    assert on_this_machine(args.report) == ROOT / "build" / "demo-compose"
    # Control log and checkpoints are where drivers and Airflow both are.
    for place in (spec.control.removeprefix("file://"), spec.arguments[spec.arguments.index("--checkpoint") + 1]):
        for name in ("demo", "scheduler", "triggerer", "spark-worker"):
            assert any(PurePosixPath(place).is_relative_to(mount) for mount in mounts(compose["services"][name]))
    broker = compose["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert broker.endswith(spec.arguments[spec.arguments.index("--kafka") + 1])


def test_every_volume_is_declared_and_every_declared_one_is_used(compose: dict[str, Any]) -> None:
    sources = {source for service in compose["services"].values() for source in mounts(service).values()}
    assert {source for source in sources if not source.startswith(".")} == set(compose["volumes"])
    assert all((ROOT / source).is_dir() for source in sources if source.startswith(".") and "build" not in source)


def test_topics_and_checkpoints_are_kept_together(compose: dict[str, Any]) -> None:
    kafka = compose["services"]["kafka"]
    assert PurePosixPath(kafka["environment"]["KAFKA_LOG_DIRS"]) in mounts(kafka)


def test_a_plain_up_creates_the_topics_of_the_stream(compose: dict[str, Any]) -> None:
    script = compose["services"]["kafka-init"]["command"][0]
    topics = re.search(r"for topic in (.*); do", script)
    partitions = re.search(r"--partitions (\d+)", script)
    assert topics
    assert partitions
    assert dict.fromkeys(topics[1].split(), int(partitions[1])) == TOPICS
    assert "profiles" not in compose["services"]["kafka-init"]


def test_each_image_of_ours_is_built_by_one_service(compose: dict[str, Any]) -> None:
    services = compose["services"].values()
    built = Counter(service["image"] for service in services if "build" in service)
    assert built == {image: 1 for image in {s["image"] for s in services} if image.startswith("airflow-stream")}
    for service in services:
        if "build" not in service and service["image"] in built:
            assert service["pull_policy"] == "never", "no registry has it"


def test_health_checks_are_rare_and_start_neither_a_jvm_nor_an_airflow(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        check = service.get("healthcheck")
        if check:
            assert int(check["interval"].removesuffix("s")) >= 30
            assert int(check["timeout"].removesuffix("s")) >= 20
            assert not re.search(r"\.sh\b|spark-class|\bairflow ", " ".join(check["test"]))


@pytest.mark.parametrize(
    ("service", "part"),
    [("scheduler", "scheduler"), ("dag-processor", "dag_processor"), ("triggerer", "triggerer")],
)
def test_a_health_check_reads_what_airflow_answers(compose: dict[str, Any], service: str, part: str) -> None:
    def answer(sick: str) -> str:
        def state(name: str) -> str:
            return "unhealthy" if name == sick else "healthy"

        return HealthInfoResponse(
            metadatabase=BaseInfoResponse(status="healthy"),
            scheduler=SchedulerInfoResponse(status=state("scheduler"), latest_scheduler_heartbeat=None),
            triggerer=TriggererInfoResponse(status=state("triggerer"), latest_triggerer_heartbeat=None),
            dag_processor=DagProcessorInfoResponse(status=state("dag_processor"), latest_dag_processor_heartbeat=None),
        ).model_dump_json()

    _, grep = compose["services"][service]["healthcheck"]["test"][1].split(" | ")

    def passes(text: str) -> bool:
        return subprocess.run(["sh", "-c", grep], input=text, text=True, check=False).returncode == 0

    assert passes(answer(sick=""))
    assert not passes(answer(sick=part))
    assert all(passes(answer(sick=other)) for other in ("scheduler", "dag_processor", "triggerer") if other != part)


def test_postgres_is_asked_where_airflow_reaches_it(compose: dict[str, Any]) -> None:
    # The server of its first start answers at the socket alone, and is stopped again.
    check = compose["services"]["postgres"]["healthcheck"]["test"]
    assert check[check.index("--host") + 1] == "postgres"
    database = compose["x-airflow"]["environment"]["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert database.endswith("@postgres/airflow")


def test_java_is_not_the_first_process(compose: dict[str, Any]) -> None:
    assert all(compose["services"][name]["init"] for name in ("kafka", "spark-master", "spark-worker"))


def test_links_lead_to_published_pages(compose: dict[str, Any]) -> None:
    worker = compose["services"]["spark-worker"]
    assert worker["hostname"] == worker["environment"]["SPARK_PUBLIC_DNS"] == "spark-worker"
    assert {port.rpartition(":")[2] for port in worker["ports"]} == {"8081", "4040-4045"}
    assert "127.0.0.1 spark-worker" in (ROOT / "docs" / "development.md").read_text()


def test_the_story_begins_with_empty_volumes_and_the_stack_can_be_stopped(compose: dict[str, Any]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.partition("\ncompose-demo:")[2].partition("\n\n")[0]
    assert 0 < recipe.index("down --volumes") < recipe.index("run --rm demo")
    assert "down --volumes" in makefile.partition("\ncompose-down:")[2].partition("\n\n")[0]
    restarts = {service.get("restart", "no") for service in compose["services"].values()}
    assert restarts <= {"no", "on-failure"}, "they would come back after a restart of the machine"

"""Start the services of the Compose file in their order, as Docker Compose does, and remove everything at the end.

podman-compose makes containers, network and volumes. It waits for no health check, and no check runs by itself without
systemd: so the order, the checks and the wait are here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.compose.file import ROOT, patience, read_services, start_order
from devstack.compose.needs import check_alone
from devstack.compose.podman import Podman
from devstack.errors import StackError

POLL_SECONDS = 5.0  # the start_interval of the health checks
ONE_SHOT_SECONDS = 900.0
SERVICE_LABEL = "com.docker.compose.service"
# Where the service `demo` writes; Docker's user in the container is not the owner (Makefile).
REPORT = ROOT / "build" / "demo-compose"


class ComposeStack:
    """The containers of the Compose file.

    :param podman: where they run.
    :param say: called with what has started.
    """

    def __init__(self, podman: Podman, say: Callable[[str], None]) -> None:
        self.podman = podman
        self.services = read_services()
        self._say = say
        self._names: dict[str, str] = {}

    def create(self) -> None:
        """Create all containers and start none."""
        self.podman.compose("up", "--no-start", "--no-deps", "--no-build")
        containers = json.loads(self.podman.run("ps", "--all", "--format", "json"))
        self._names = {container["Labels"][SERVICE_LABEL]: container["Names"][0] for container in containers}
        missing = sorted(set(self.services) - set(self._names))
        if missing:
            raise StackError(f"podman-compose has made no container for {', '.join(missing)}.")

    def start_all(self) -> None:
        """Start every service without a profile, each after what it depends on is healthy or has ended with 0.

        :raises StackError: one of them does not get there.
        """
        for group in start_order(self.services):
            named = [name for name in group if "profiles" not in self.services[name]]
            for name in named:
                self.start(name)
            for name in named:
                began = time.monotonic()
                self.wait(name)
                self._say(f"{name}: {self.state(name)} after {time.monotonic() - began:.0f} s")

    def start(self, name: str) -> None:
        """Start the container of a service."""
        self.podman.run("start", self._names[name])

    def wait(self, name: str, seconds: float = ONE_SHOT_SECONDS) -> None:
        """Wait until a service is healthy, or one without a health check has ended with 0.

        :param seconds: how long one without a health check may take.
        :raises StackError: it does not get there in the time that the file gives it.
        """
        check = self.services[name].get("healthcheck")
        done, wanted = (self.healthy, "healthy") if check else (self._ended, "over")
        deadline = time.monotonic() + (patience(check) if check else seconds)
        while not done(name):
            if time.monotonic() > deadline:
                raise StackError(
                    f"The service {name} is {self.state(name)}, and not {wanted}. Its last lines:\n{self.tail(name)}"
                )
            time.sleep(POLL_SECONDS)

    def healthy(self, name: str) -> bool:
        """Run the health check of a service, and return what it says."""
        return self.podman.succeeds("healthcheck", "run", self._names[name])

    def state(self, name: str) -> str:
        """Return the state of a container in Podman's words, and its exit code."""
        return self.podman.run(
            "inspect",
            "--format",
            "{{.State.Status}} ({{.State.ExitCode}}, {{.RestartCount}} restarts)",
            self._names[name],
        ).strip()

    def execute(self, name: str, *command: str) -> str:
        """Run a command in the container of a service, and return its output."""
        return self.podman.run("exec", self._names[name], *command)

    def tail(self, name: str, lines: int = 20) -> str:
        """Return the last lines that a service has written."""
        path = self.podman.folder / "tail.log"
        self.podman.to_file(path, "logs", "--tail", str(lines), self._names[name])
        return path.read_text(errors="replace")

    def keep_logs(self, folder: Path) -> None:
        """Write what every service has said to a file of its name."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, container in self._names.items():
            self.podman.to_file(folder / f"{name}.log", "logs", container)

    def remove(self) -> None:
        """Stop and remove containers, volumes and network; those of a run that was killed, too."""
        self.podman.compose("down", "--volumes", "--remove-orphans")
        # Those without a name, which images ask for: podman-compose leaves them, and this storage has no others.
        self.podman.run("volume", "prune", "--force")

    def _ended(self, name: str) -> bool:
        status, code = self.podman.run(
            "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", self._names[name]
        ).split()
        if status != "exited":
            return False
        if code != "0":
            raise StackError(f"The service {name} ended with {code}. Its last lines:\n{self.tail(name)}")
        return True


def left_behind(podman: Podman) -> list[str]:
    """Return the containers, volumes and networks that there still are."""
    left = podman.run("ps", "--all", "--format", "{{.Names}}").split()
    left += podman.run("volume", "ls", "--format", "{{.Name}}").split()
    return left + [name for name in podman.run("network", "ls", "--format", "{{.Name}}").split() if name != "podman"]


@contextmanager
def running(folder: Path, say: Callable[[str], None]) -> Iterator[ComposeStack]:
    """Run all services but those with a profile, and remove everything at the end.

    :param folder: Podman's folder, with the images in it; the services' logs are left in `logs/` of it.
    :param say: called with what has started.
    :raises StackError: a service does not start, or this does not run in namespaces of its own.
    """
    check_alone()
    podman = Podman(folder)
    stack = ComposeStack(podman, say)
    try:
        stack.remove()
        REPORT.mkdir(parents=True, exist_ok=True)
        REPORT.chmod(0o1777)
        stack.create()
        try:
            stack.start_all()
            yield stack
        finally:
            stack.keep_logs(folder / "logs")
            stack.remove()
        left = left_behind(podman)
        if left:
            raise StackError(f"These are still there: {', '.join(left)}.")
    finally:
        podman.close()

"""Podman with a storage of its own below build/, and podman-compose on it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from devstack.compose.file import COMPOSE_FILE, ROOT, read_services, without_start_interval
from devstack.errors import StackError

TAIL_LINES = 20
# The first two lines are needed where no systemd runs and limits are low; the others keep everything in one folder.
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=1024:1024","nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
image_copy_tmp_dir = "{folder}"
tmp_dir = "{run}/libpod"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{run}"
"""


class Podman:
    """Podman on images, volumes and networks that no other Podman of this machine sees.

    :param folder: where images and volumes are kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        # Not in `folder`: Podman takes no path of more than 50 characters, and what is there is to go with a reboot.
        self.run_folder = Path("/run") / f"test-compose-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"
        self.folder.mkdir(parents=True, exist_ok=True)
        places = {"folder": self.folder, "run": self.run_folder}
        (self.folder / "containers.conf").write_text(CONTAINERS_CONF.format(**places))
        (self.folder / "storage.conf").write_text(STORAGE_CONF.format(**places))
        self._override = self.folder / "override.yaml"
        self._override.write_text(without_start_interval(read_services()))
        self._environment = {
            **os.environ,
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
        }

    def run(self, *words: str | Path) -> str:
        """Run a command of Podman and return what it writes to its standard output.

        :raises StackError: it fails.
        """
        return self._run(["podman", *map(str, words)])

    def compose(self, *words: str) -> str:
        """Run a command of podman-compose on docker-compose.yaml, with the profile `demo`.

        :raises StackError: it fails.
        """
        # A pod would give all services one name and one network stack, unlike Docker's.
        options = ("--in-pod=false", f"--file={COMPOSE_FILE}", f"--file={self._override}", "--profile=demo")
        return self._run([sys.executable, "-m", "podman_compose", *options, *words])

    def succeeds(self, *words: str) -> bool:
        """Return whether a command of Podman ends with 0."""
        return self._start(["podman", *words], subprocess.DEVNULL).returncode == 0

    def to_file(self, path: Path, *words: str) -> int:
        """Write what a command of Podman says to a file, and return its exit code."""
        with path.open("w") as file:
            return self._start(["podman", *words], file).returncode

    def close(self) -> None:
        """Undo the mount that Podman leaves behind, so that its folder can be removed."""
        overlay = self.folder / "storage" / "overlay"
        while os.path.ismount(overlay):
            subprocess.run(["umount", str(overlay)], check=True)
        shutil.rmtree(self.run_folder, ignore_errors=True)

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-TAIL_LINES:])
            raise StackError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
        return done.stdout

    def _start(self, command: list[str], output: int | IO[str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )

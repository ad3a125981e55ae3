"""Build the images of the Compose file: stand-ins under the names of the published ones, then our own from them.

A stand-in is a Debian with the same program, started in the same way: `images/NAME/` has the recipe of
`…/NAME:VERSION`. The program comes from where the tests have it: Maven's jars, pinned wheels, Debian's packages.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from devstack.cache import once
from devstack.compose.file import ROOT
from devstack.compose.podman import Podman
from devstack.errors import StackError
from devstack.jars import fetch, kafka_broker
from devstack.kafka_tools import kafka_tools

RECIPES = Path(__file__).with_name("images")
DEBIAN = "localhost/debian:bookworm"
# A registry may be reached through a proxy with certificates of its own: a build trusts whom this machine trusts.
TRUSTED = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/ssl/certs/java/cacerts"))
PIP_CONF = f"[global]\ncert = {TRUSTED[0]}\n"


def build(podman: Podman, upstream: Iterable[str], say: Callable[[str], None]) -> None:
    """Build every image that is missing or whose recipe has changed.

    :param upstream: the names of the published images.
    :param say: called with what is done next.
    :raises StackError: something cannot be fetched or built, or there is no recipe for a name.
    """
    options = ["--network=host", "--pull=never"]
    if not podman.succeeds("image", "exists", DEBIAN):
        say("a Debian, by mmdebstrap")
        _debian(podman)
    for name in sorted(upstream):
        say(f"{name}, from Debian")
        folder = recipe(name)
        programs = [f"--build-context={key}={value}" for key, value in _programs(folder.name, podman.folder).items()]
        podman.run("build", *options, *programs, "--tag", name, folder)
    say("the images of the Compose file, from those")
    # Only here: Debian's Java writes the file of certificates as it is installed, which a mount would keep it from.
    podman.compose(*(f"--podman-build-args={option}" for option in [*options, *_trust(podman.folder)]), "build")


def recipe(image: str) -> Path:
    """Return the folder with the recipe of a stand-in.

    :param image: name of the published image, with its tag.
    :raises StackError: there is none.
    """
    folder = RECIPES / image.partition(":")[0].rpartition("/")[2]
    if not (folder / "Dockerfile").is_file():
        raise StackError(
            f"There is no stand-in for the image {image}.", next_step=f"Write {folder.relative_to(ROOT)}/Dockerfile."
        )
    return folder


def pinned(package: str) -> str:
    """Return the lines of requirements.txt that pin a package, with its hashes.

    :raises StackError: it is not pinned.
    """
    match = re.search(rf"^{package}==.*(?:\\\n.*)+\n", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    if match is None:
        raise StackError(f"requirements.txt does not pin {package}.", next_step="make requirements")
    return match[0]


def _debian(podman: Podman) -> None:
    tree = podman.folder / "debian.tar"
    made = subprocess.run(
        ["mmdebstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(tree)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise StackError(
            f"mmdebstrap ended with {made.returncode}: {made.stderr[-2000:]}",
            next_step="Check that this machine reaches a mirror of Debian.",
        )
    podman.run("import", tree, DEBIAN)
    tree.unlink()


def _programs(name: str, folder: Path) -> dict[str, Path]:
    """Return the folders that the recipe copies from, by the names that it has for them."""
    if name == "kafka":
        return {"broker": fetch(kafka_broker()), "tools": fetch(kafka_tools())}
    if name == "spark":
        return {"pyspark": once(folder / f"pyspark-{_version('pyspark')}", _pyspark) / "pyspark"}
    return {}


def _version(package: str) -> str:
    return pinned(package).partition("==")[2].split()[0]


def _pyspark(folder: Path) -> None:
    requirement = folder / "requirement.txt"
    requirement.write_text(pinned("pyspark"))
    command = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-deps", "--link-mode=copy"]
    options = [f"--python={sys.executable}", f"--target={folder}", "--require-hashes", f"--requirements={requirement}"]
    subprocess.run([*command, *options], stdin=subprocess.DEVNULL, check=True)


def _trust(folder: Path) -> list[str]:
    pip_conf = folder / "pip.conf"
    pip_conf.write_text(PIP_CONF)
    mounts = {pip_conf: Path("/etc/pip.conf"), **{path: path for path in TRUSTED if path.exists()}}
    return [f"--volume={source}:{target}:ro" for source, target in mounts.items()]

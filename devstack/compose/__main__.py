"""`python -m devstack.compose`: build the images of the Compose file, or say what this machine lacks."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from devstack.compose import images, needs
from devstack.compose.file import read_services, upstream_images
from devstack.compose.podman import Podman
from devstack.errors import StackError

FOLDER = Path("build") / "compose"


def main() -> int:
    """Build what is missing and return the exit code."""
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {what}", flush=True)

    try:
        needs.check()
        podman = Podman(FOLDER)
        try:
            images.build(podman, upstream_images(read_services()), say)
        finally:
            podman.close()
        say("all images are there")
        return 0
    except StackError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

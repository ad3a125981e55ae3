"""Say what is missing to run containers, before anything is built or started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from devstack.errors import StackError

# Each Debian package with a program of it, looked for in PATH and where Podman looks.
PACKAGES = {
    "podman": "podman",
    "runc": "runc",
    "conmon": "conmon",
    "netavark": "netavark",
    "aardvark-dns": "aardvark-dns",
    "catatonit": "catatonit",
    "iptables": "iptables",
    "iproute2": "ip",
    "mmdebstrap": "mmdebstrap",
}
INIT = "catatonit"  # by the Makefile
HELPERS = "/usr/lib/podman:/usr/libexec/podman:/usr/sbin:/sbin"


def check(find: Callable[[str], bool] | None = None, user: int | None = None) -> None:
    """Check that containers can run.

    :param find: whether this machine has a program; default: looks for it.
    :param user: id of the user; default: who runs this.
    :raises StackError: a package is missing, or this is not root.
    """
    missing = [package for package, program in PACKAGES.items() if not (find or _found)(program)]
    if missing:
        raise StackError(
            f"make test-compose needs the Debian packages {', '.join(missing)}, which this machine does not have.",
            next_step=f"apt-get install {' '.join(missing)}",
        )
    if (os.geteuid() if user is None else user) != 0:
        raise StackError(
            "make test-compose has to be run by root: the images begin with a Debian made by mmdebstrap, and the "
            "containers have a network of their own.",
            next_step="Run it with sudo, in a clone that root may write to.",
        )


def check_alone(init: str | None = None) -> None:
    """Check that this runs in namespaces of its own: nothing runs of what a run before has left, and its /run is gone.

    :param init: name of the first process; default: reads it.
    :raises StackError: it does not.
    """
    if (init or Path("/proc/1/comm").read_text().strip()) != INIT:
        raise StackError(
            "The containers of docker-compose.yaml run in namespaces of their own only, which this process is not in.",
            next_step="make test-compose",
        )


def _found(program: str) -> bool:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{HELPERS}") is not None

"""Let every use of a folder hang, as on a hard-mounted NFS server that is away.

It is then under a FUSE mount whose server never answers. Needs a user and mount namespace of our own, and /dev/fuse.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FUSE = "/dev/fuse"
_MNT_DETACH = 2


def mount_dead(folder: Path) -> int:
    """Let every use of this folder hang; return what `unmount_dead` takes.

    :raises OSError: it cannot be mounted here.
    """
    server = os.open(FUSE, os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if _libc().mount(b"hanging", os.fsencode(folder), b"fuse", 0, options):
        number = ctypes.get_errno()
        os.close(server)
        raise OSError(number, os.strerror(number), str(folder))
    return server


def unmount_dead(folder: Path, server: int) -> None:
    """Let the folder be there as before; whatever hangs there fails."""
    os.close(server)
    _libc().umount2(os.fsencode(folder), _MNT_DETACH)


@contextmanager
def hanging(folder: Path) -> Iterator[None]:
    """Let every use of this folder hang until the end; then it is there as before."""
    server = mount_dead(folder)
    try:
        yield
    finally:
        unmount_dead(folder, server)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

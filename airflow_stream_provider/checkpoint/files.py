"""The file system of checkpoint code, and the place of a checkpoint on one that is not mounted here.

A file or folder is a `Place`: a `Path` where the operating system reaches it, else a `RemotePath`. Paths only say
where; whatever is done with them is done by `Files`. `LocalFiles` needs no JVM; `runtime.hadoop_files` does.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, Union

# Schemes of storage that is not mounted on which a file can be replaced at once: HDFS renames over it, and S3A shows an
# object when its upload is complete. Hadoop's S3A does not rename at once, nor does every store upload at once.
REPLACES = ("hdfs", "s3a")


@dataclass(frozen=True)
class RemotePath:
    """A file or folder on a file system that is reached by a URL; with the few methods of `Path` that are needed.

    :param root: scheme and authority, such as ``hdfs://namenode:8020``.
    :param path: the absolute path there. As in Hadoop's Path, nothing in it is escaped.
    :param files: its file system.
    """

    root: str
    path: PurePosixPath
    files: Files = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.root}{self.path}"

    def __truediv__(self, name: str | PurePosixPath) -> RemotePath:
        return self._at(self.path / name)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.name

    @property
    def parent(self) -> RemotePath:
        """The folder that it is in."""
        return self._at(self.path.parent)

    @property
    def parents(self) -> tuple[RemotePath, ...]:
        """The folders above it, the nearest first."""
        return tuple(map(self._at, self.path.parents))

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path."""
        return self.path.parts

    def with_name(self, name: str) -> RemotePath:
        """Return its neighbour of this name."""
        return self._at(self.path.with_name(name))

    def relative_to(self, folder: Place) -> PurePosixPath:
        """Return the path from a folder above it.

        :raises ValueError: it is not below that folder.
        """
        if not isinstance(folder, RemotePath) or folder.root != self.root:
            raise ValueError(f"{self} is not below {folder}")
        return self.path.relative_to(folder.path)

    def _at(self, path: PurePosixPath) -> RemotePath:
        return RemotePath(self.root, path, self.files)


Place = Union[Path, RemotePath]


@dataclass(frozen=True)
class FileFacts:
    """A file or folder in a listing.

    :param size: bytes; 0 of a folder.
    :param modified: seconds since 1970, by the clock of its file system.
    :param is_folder: whether it is a folder.
    :param is_encrypted: whether its file system says that it encrypts it, as HDFS says of an encryption zone.
    """

    size: int
    modified: float
    is_folder: bool = False
    is_encrypted: bool = False


class Files(Protocol):
    """A file system, as far as checkpoints need one. Every method raises OSError with a reason that people can read.

    All see what others have written as soon as their write has ended, except on NFS: see `checkpoint.visible`.
    """

    def names(self, folder: Place, *, large: bool = False) -> list[str]:
        """Return the names in a folder, in any order.

        :param large: whether others decide how many there are, so that it may take minutes; default False.
        :raises FileNotFoundError: there is no such folder.
        :raises NotADirectoryError: it is a file.
        """

    def walk(self, folder: Place, skip: Container[str] = ()) -> Iterable[tuple[Place, list[str]]]:
        """Return every folder at and below this one in which files are, with the names of these files.

        :param skip: names of folders that are left out with all that is in them.
        """

    def facts(self, paths: Sequence[Place]) -> list[FileFacts | None]:
        """Return what listings say of each of these, in their order; None for what does not exist."""

    def read(self, path: Place) -> bytes:
        """Return the contents of a small file.

        :raises FileNotFoundError: there is no such file.
        :raises CheckpointError: it is none that Spark has written: a link, a pipe, or much too large.
        """

    def open(self, path: Place) -> IO[bytes]:
        """Open a file of a few megabytes at most, to read anywhere in it."""

    def write(self, path: Place, data: bytes) -> None:
        """Write a new file, and the folders above it. Whether it replaces one that exists depends on the storage.

        On storage that is not mounted others see it whole or not at all.
        """

    def replace(self, path: Place, data: bytes) -> None:
        """Replace a small file at once: readers find the old or the new contents, also after a crash.

        On storage that is not mounted only where its scheme is one of REPLACES.
        """

    def make_private(self, folder: Place) -> None:
        """Make a folder, and those above it that do not exist, for this user only where the storage knows users."""

    def copy(self, root: Place, files: Iterable[Place], to: Place) -> int:
        """Copy files below a root to the same places below another folder; return their bytes.

        Hadoop's hidden checksum files come along, where the storage has them, and are not counted.
        """

    def remove(self, folder: Place) -> None:
        """Remove a folder with all that is in it; nothing happens when it does not exist."""

    def check_writable(self, path: Place) -> None:
        """Check that a folder could be made or written at a path, by writing a file near it that is removed again."""

    def list_anew(self, folder: Place) -> None:
        """Let this machine list a folder anew: an NFS client does so once it has changed the folder itself."""

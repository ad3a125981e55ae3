"""Copies files inside an object store, where Hadoop can ask it to."""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

# S3 copies no more than this in one request; larger files go through the driver.
LIMIT = 5 * 2**30

log = logging.getLogger(__name__)


class ServerSideCopy:
    """S3's CopyObject, by the requests that S3A makes when it renames: with the encryption of its settings.

    :param system: Hadoop's FileSystem. For any but S3A of Hadoop 3.4 and later nothing is copied here.
    """

    def __init__(self, system: Any) -> None:
        self._s3a: Any = None
        try:
            if system.getScheme() == "s3a":
                self._s3a = system.getS3AInternals()
                self._client = self._s3a.getAmazonS3Client("clones of a rehearsal")
                self._context = system.createStoreContext()
                self._requests = self._context.getRequestFactory()
        except Py4JError as error:  # Hadoop 3.3 has none of this
            self._s3a = None
            log.info(
                "Files are copied through the driver: S3A does not let them be copied in the store (%.200s)", error
            )

    def copied(self, file: Any, target: Any, size: int) -> bool:
        """Copy a file, and return True; return False when the store cannot, or may not, do so.

        :param file: Hadoop's Path, as `target`.
        :param size: bytes of the file.
        :raises Py4JJavaError: the file does not exist, or cannot be read.
        """
        s3a = self._s3a  # another thread may be refused meanwhile
        if s3a is None or size > LIMIT:
            return False
        found = s3a.getObjectMetadata(file)
        keys = self._context.pathToKey(file), self._context.pathToKey(target)
        try:
            self._client.copyObject(self._requests.newCopyObjectRequestBuilder(*keys, found).build())
        except Py4JJavaError as error:
            # Such as of a driver that may read and write, but with a key that does not cover the copy.
            log.warning("S3 refuses to copy a file inside the store; they go through the driver: %.300s", error)
            self._s3a = None
            return False
        return True

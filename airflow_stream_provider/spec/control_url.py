"""Control URLs: where control logs can live."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_stream_provider.control.root import local_folder
from airflow_stream_provider.control.topic import check_prefix
from airflow_stream_provider.lifecycle.errors import SpecError

# An Airflow connection whose id can stand in a URL as it is.
_CONNECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_OBJECT_STORES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "az")


@dataclass(frozen=True)
class TopicAddress:
    """A control URL in Kafka.

    :param connection: id of the Airflow connection.
    :param prefix: of the topics' names: the log of the stream `orders` is in ``PREFIX.orders``.
    """

    connection: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> TopicAddress | None:
        """Return the address in a control URL such as ``kafka://kafka_default/streams``; None: it is not in Kafka.

        :raises SpecError: it begins like one, and is none.
        """
        parts = urlsplit(url)
        if parts.scheme != "kafka":
            return None
        prefix = parts.path.removeprefix("/")
        if not _CONNECTION.fullmatch(parts.netloc) or "/" in prefix or parts.query or parts.fragment:
            # Not quoted: somebody may have written a user and a password.
            raise SpecError(
                "The control URL is not kafka://CONNECTION/PREFIX.",
                next_step="Name an Airflow connection of type kafka, and a prefix for the topics, of letters, digits, "
                "'.', '_' and '-': kafka://kafka_default/streams. Brokers and credentials belong into the connection.",
            )
        check_prefix(prefix)
        return cls(parts.netloc, prefix)


def check_control_url(url: str) -> None:
    """Check a control URL, without asking anything outside this process.

    :raises SpecError: no control log can live there.
    """
    scheme = urlsplit(url).scheme
    if scheme in _OBJECT_STORES:
        raise SpecError(
            f"No control log can live on {scheme}:, because not every store that is called so creates an object "
            "exclusively, and S3A of Hadoop 3.4.1 lets ten of ten writers win.",
            next_step="Use kafka://CONNECTION/PREFIX, or a mounted folder; checkpoints and releases may be on "
            f"{scheme}:. See docs/control.md.",
        )
    if TopicAddress.parse(url) is None:
        local_folder(url)

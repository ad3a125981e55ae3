"""Fetch the jars of Kafka, HDFS, YARN, a KDC, Cassandra, and of Spark's connectors by their Maven coordinates.

Nothing is written to `~/.m2`, because Spark's own `--packages` fails if a download there is incomplete. The folder of
the jars has its own Maven repository (`repository/`) and one folder for each set, which gets its name only when it is
complete. A jar is taken only if its SHA-256 is in `jars.sha256`: a hash from the same server would prove nothing.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devstack.cache import cache_folder, once
from devstack.errors import StackError

if TYPE_CHECKING:
    from jgo.maven import Artifact, MavenContext

KAFKA_VERSION = "4.1.1"
# The slf4j binding of Kafka's distribution. Without a binding the broker logs nothing.
LOG4J_VERSION = "2.24.3"
S3PROXY_VERSION = "4.0.0"
POSTGRES_JDBC_VERSION = "42.7.7"
HADOOP_VERSION = "3.4.1"
CASSANDRA_VERSION = "5.0.5"
DELTA_VERSION = "4.0.0"
ICEBERG_VERSION = "1.10.0"
# What Hadoop's minicluster needs and does not name among its dependencies.
HDFS_NEEDS = (
    "org.bouncycastle:bcprov-jdk18on:1.78.1",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    "javax.xml.bind:jaxb-api:2.3.1",
    "com.sun.xml.bind:jaxb-impl:2.3.9",
    "junit:junit:4.13.2",
    "org.mockito:mockito-core:4.11.0",
)
# The parts of Amazon's SDK that hadoop-aws uses, by the version that it is built with: the whole is 558 MB.
AWS_SDK = {"3.4.1": "2.25.53"}
AWS_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
# Some registries lack later versions of the token provider. It is only used with delegation tokens, and this version
# fits.
TOKEN_PROVIDER_FALLBACK = "4.0.0"

# Clients of Kafka that are used in place of a connector's own, by the version of Spark: 3.9.0 has CVE-2025-27817.
KAFKA_CLIENTS = {"4.0.0": "3.9.2"}

Progress = Callable[[str, int, int], None]
"""Called with the name of the set, the number of jars fetched so far, and the number of all jars: 0 while unknown."""


@dataclass(frozen=True)
class JarSet:
    """A set of jars: some Maven coordinates and their runtime dependencies.

    :param name: name of the set.
    :param coordinates: group, artifact and version, separated by colons.
    :param shipped: artifact ids that are on the class path anyway and are left out.
    :param fallbacks: pairs of artifact id and the version to use if the resolved one is not pinned.
    :param alone: the jars hold their dependencies themselves.
    """

    name: str
    coordinates: tuple[str, ...]
    shipped: frozenset[str] = frozenset()
    fallbacks: tuple[tuple[str, str], ...] = ()
    alone: bool = False

    @property
    def folder_name(self) -> str:
        """The name of the set with a hash of its definition, so that a changed set gets a new folder."""
        content = repr((self.coordinates, sorted(self.shipped), self.fallbacks))
        return f"{self.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def kafka_broker() -> JarSet:
    """Return the jars of the KRaft broker, its admin tools and its logging."""
    return JarSet(
        f"kafka-{KAFKA_VERSION}",
        (
            f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
            f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
        ),
    )


def spark_connector(spark_home: Path) -> JarSet:
    """Return the jars of Spark's Kafka source and sink, without those that Spark ships itself.

    :param spark_home: folder of the Spark that they have to fit.
    :raises StackError: there is no Spark in the folder.
    """
    shipped = {artifact_id(jar.name): jar.name for jar in (spark_home / "jars").glob("*.jar")}
    core = next(
        (re.fullmatch(r"spark-core_([\d.]+)-(.+)\.jar", jar) for jar in shipped.values() if "spark-core_" in jar), None
    )
    if core is None:
        raise StackError(
            f"There is no Spark in {spark_home}.", next_step="Install pyspark there, or use another folder."
        )
    scala, version = core.groups()
    client = (f"org.apache.kafka:kafka-clients:{KAFKA_CLIENTS[version]}",) if version in KAFKA_CLIENTS else ()
    return JarSet(
        f"spark-kafka-{version}",
        (f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}", *client),
        shipped=frozenset(shipped),
        fallbacks=((f"spark-token-provider-kafka-0-10_{scala}", TOKEN_PROVIDER_FALLBACK),),
    )


def hdfs() -> JarSet:
    """Return the jars of a NameNode and a DataNode."""
    return JarSet(
        f"hdfs-{HADOOP_VERSION}", (f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}", *HDFS_NEEDS)
    )


def yarn() -> JarSet:
    """Return the jars of a ResourceManager and a NodeManager.

    Not Hadoop's minicluster: what it shades makes its REST answer otherwise than a cluster's.
    """
    parts = ("yarn-server-resourcemanager", "yarn-server-nodemanager", "yarn-server-timelineservice", "common")
    return JarSet(
        f"yarn-{HADOOP_VERSION}", tuple(f"org.apache.hadoop:hadoop-{part}:{HADOOP_VERSION}" for part in parts)
    )


def kdc() -> JarSet:
    """Return the jars of Hadoop's MiniKdc: a Kerberos server, Apache Kerby's."""
    return JarSet(f"kdc-{HADOOP_VERSION}", (f"org.apache.hadoop:hadoop-minikdc:{HADOOP_VERSION}",))


def cassandra() -> JarSet:
    """Return the jars of a Cassandra node."""
    return JarSet(f"cassandra-{CASSANDRA_VERSION}", (f"org.apache.cassandra:cassandra-all:{CASSANDRA_VERSION}",))


def spark_s3a(spark_home: Path) -> JarSet:
    """Return the jars of Hadoop's S3A, without those that Spark ships itself.

    :param spark_home: folder of the Spark that they have to fit.
    :raises StackError: it has a Hadoop whose SDK is not known here.
    """
    shipped = {artifact_id(jar.name): jar.name for jar in (spark_home / "jars").glob("*.jar")}
    hadoop = shipped.get("hadoop-client-api", "").removeprefix("hadoop-client-api-").removesuffix(".jar")
    if hadoop not in AWS_SDK:
        raise StackError(
            f"The Spark in {spark_home} has Hadoop {hadoop or '(none)'}, and only {', '.join(AWS_SDK)} is known.",
            next_step="Add the version of Amazon's SDK that this hadoop-aws is built with to devstack/jars.py.",
        )
    parts = tuple(f"software.amazon.awssdk:{part}:{AWS_SDK[hadoop]}" for part in AWS_PARTS)
    return JarSet(
        f"spark-s3a-{hadoop}", (f"org.apache.hadoop:hadoop-aws:{hadoop}", *parts), frozenset({*shipped, "bundle"})
    )


def delta() -> JarSet:
    """Return the jars of Delta for Spark 4.0, without those that Spark ships itself."""
    parts = tuple(f"io.delta:{name}:{DELTA_VERSION}" for name in ("delta-spark_2.13", "delta-storage"))
    return JarSet(f"delta-{DELTA_VERSION}", parts, alone=True)


def iceberg() -> JarSet:
    """Return the jar of Iceberg for Spark 4.0."""
    coordinate = f"org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:{ICEBERG_VERSION}"
    return JarSet(f"iceberg-{ICEBERG_VERSION}", (coordinate,), alone=True)


def spark_cloud(spark_home: Path) -> JarSet:
    """Return the jar of Spark's own parts for object stores, of the Spark in a folder."""
    core = next((spark_home / "jars").glob("spark-core_*.jar")).name
    scala, version = core.removeprefix("spark-core_").removesuffix(".jar").split("-", 1)
    return JarSet(f"spark-cloud-{version}", (f"org.apache.spark:spark-hadoop-cloud_{scala}:{version}",), alone=True)


def s3proxy() -> JarSet:
    """Return the jar of s3proxy, an S3 server in one process."""
    coordinate = f"org.gaul:s3proxy:{S3PROXY_VERSION}:jar-with-dependencies"
    return JarSet(f"s3proxy-{S3PROXY_VERSION}", (coordinate,), alone=True)


def postgres_jdbc() -> JarSet:
    """Return the jar by which Spark's own JDBC source and sink reach PostgreSQL."""
    return JarSet(
        f"postgres-jdbc-{POSTGRES_JDBC_VERSION}", (f"org.postgresql:postgresql:{POSTGRES_JDBC_VERSION}",), alone=True
    )


def artifact_id(jar: str) -> str:
    """Return the artifact id in a jar's file name: the part before the version.

    >>> artifact_id("spark-sql-kafka-0-10_2.13-4.0.0.jar")
    'spark-sql-kafka-0-10_2.13'
    """
    match = re.fullmatch(r"(.+)-\d+\.\d[\w.-]*\.jar", jar)
    return match.group(1) if match else jar.removesuffix(".jar")


def fetch(jars: JarSet, *, progress: Progress | None = None) -> Path:
    """Return the folder with all jars of a set, in `jars/` of the cache. Fetch them if it does not exist.

    Once it exists, no network is needed.

    :param progress: called from this thread after every jar. If it raises, fetching stops.
    :raises StackError: a jar cannot be fetched.
    """
    root = cache_folder() / "jars"
    return once(root / jars.folder_name, lambda folder: _fill(folder, root, jars, progress or (lambda *_: None)))


def _fill(folder: Path, root: Path, jars: JarSet, progress: Progress) -> None:
    progress(jars.name, 0, 0)
    artifacts = _resolve(jars, _context(root / "repository"))
    with ThreadPoolExecutor(8, thread_name_prefix="jars") as pool:
        fetching = [pool.submit(_fetch_one, artifact, dict(jars.fallbacks)) for artifact in artifacts]
        try:
            for done, future in enumerate(as_completed(fetching), start=1):
                jar = future.result()
                os.link(jar, folder / jar.name)
                progress(jars.name, done, len(fetching))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _resolve(jars: JarSet, context: MavenContext) -> list[Artifact]:
    # The "!" makes jgo use plain Maven rules. Without it each coordinate manages the versions of the others, and the
    # logging jar would bring an older Kafka client.
    inputs, needed = context.resolver.resolve([context.create_dependency(f"{each}!") for each in jars.coordinates])
    return [
        dependency.artifact
        for dependency in (inputs if jars.alone else (*inputs, *needed))
        if dependency.scope in (None, "compile", "runtime")
        and not dependency.optional
        and dependency.artifactId not in jars.shipped
    ]


def _fetch_one(artifact: Artifact, fallbacks: dict[str, str]) -> Path:
    version = fallbacks.get(artifact.artifactId)
    # Also where the registry has the resolved version: which jars run does not depend on the registry.
    if version is not None and artifact.filename not in pinned():
        artifact = artifact.component.project.at_version(version).artifact()
    try:
        jar: Path = artifact.resolve()
    except _NotFound as error:
        raise StackError(str(error), next_step="Check the version, or use a registry that has it.") from error
    verify(jar.name, jar.read_bytes())  # it may have been there from an earlier time
    return jar


@functools.cache
def pinned() -> dict[str, str]:
    """Return the SHA-256 of the jars, by file name."""
    lines = Path(__file__).with_name("jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines if not line.startswith("#"))}


def verify(name: str, content: bytes) -> None:
    """Check a jar against its pinned hash.

    :raises StackError: it has another one, or none is pinned.
    """
    if pinned().get(name) != hashlib.sha256(content).hexdigest():
        known = "not the one in" if name in pinned() else "not known in"
        raise StackError(
            f"The SHA-256 of {name} is {known} devstack/jars.sha256.",
            next_step="If the version was changed on purpose, add its hash there. If not, the registry has something "
            "else than was tested: do not use it. Nothing was put on a class path.",
        )


class _NotFound(RuntimeError):
    """The registry does not have the artifact. A RuntimeError, after which jgo continues without a missing POM."""


def _context(repository: Path) -> MavenContext:
    """Return jgo's resolver on our own repository, with atomic downloads.

    jgo's own download leaves an incomplete file after a broken connection and uses it the next time. While it resolves,
    it also treats a connection error like a POM that does not exist.
    """
    from jgo.maven import MavenContext, PythonResolver

    local = threading.local()

    class WholeDownloads(PythonResolver):
        def download(self, artifact: Artifact) -> Path:
            target = artifact.cached_path
            assert target is not None  # None only without repo_cache
            target.parent.mkdir(parents=True, exist_ok=True)
            for remote in artifact.context.remote_repos.values():
                url = f"{remote}/{artifact.component.path_prefix.as_posix()}/{artifact.filename}"
                content = _get(local, url)
                if content is not None:
                    if artifact.packaging == "jar":
                        verify(artifact.filename, content)
                    _write_whole(target, content)
                    return target
            raise _NotFound(f"{artifact} is not in {', '.join(artifact.context.remote_repos.values())}.")

    # Without `repo_cache` jgo would write to ~/.m2.
    return MavenContext(resolver=WholeDownloads(), repo_cache=repository)


def _get(local: Any, url: str) -> bytes | None:
    """Return the body of the answer, None for a 404. One connection per thread, three retries."""
    import requests
    from requests.adapters import HTTPAdapter, Retry

    if not hasattr(local, "session"):
        local.session = requests.Session()
        retry = Retry(3, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))
        local.session.mount("https://", HTTPAdapter(max_retries=retry))
    try:
        answer = local.session.get(url, timeout=60)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return bytes(answer.content)
    except requests.RequestException as error:
        raise StackError(
            f"Fetching {url} failed: {error}.",
            next_step="Check the connection to the registry (proxy, certificates) and start again. Fetched files stay.",
        ) from error


def _write_whole(target: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        file.write(content)
    Path(file.name).replace(target)

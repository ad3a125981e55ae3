"""How what a YAML asks for differs from what runs, as far as a release's record and its stored files say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.address import StorageAddress

# Said in the form of an upgrade, and for that one alone.
_OF_ONE_UPGRADE = ("changed_checkpoints", "no_way_back")


@dataclass(frozen=True)
class Declaration:
    """The parts of a declared deployment.

    :param files: the SHA-256 of each file of the release, by its name; None: not known.
    :param cluster: Airflow connection of the cluster; empty: not known.
    """

    release: Release
    files: Mapping[str, str] | None
    policy: Policy
    cluster: str

    @property
    def fields(self) -> dict[str, Any]:
        """Its values by the names of the YAML's fields, and below ``files`` the hash of each file.

        Fields that are not set, or not known, are left out.
        """
        release, policy = self.release, self.policy.to_json()
        offsets_group = policy.pop("offsets_group")
        for name in _OF_ONE_UPGRADE:
            policy.pop(name, None)
        single = {
            "version": release.version,
            "application": release.application,
            "arguments": list(release.arguments),
            "py_files": list(release.py_files),
            "cluster": self.cluster,
            # Each control log has a part of it, which no YAML names.
            "storage": StorageAddress.parse(release.storage).whole.url if release.storage else "",
            "offsets_group": offsets_group,
        }
        groups = {
            "files": self.files or {},
            "conf": release.conf,
            "environment": release.environment,
            "upgrade": policy,
        }
        inner = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
        return {"release": release.hash, **{name: value for name, value in single.items() if value}, **inner}


@dataclass(frozen=True)
class Difference:
    """One field that differs.

    :param field: its name in the YAML, such as ``conf.spark.cores.max``; ``files.NAME`` is the SHA-256 of a file, and
        ``release`` the hash over all that a release is made of.
    :param running: its value in what runs; None: it has none.
    :param yaml: its value by the YAML; None: it has none.
    """

    field: str
    running: Any
    yaml: Any


def differences(running: Declaration, yaml: Declaration) -> tuple[Difference, ...]:
    """Return what differs; an upgrade with the values of the YAML would change all of it, and nothing else.

    The hash differs if anything does that a release is made of, also where it is not known which file.
    """
    old, new = running.fields, yaml.fields
    names = [name for name in dict.fromkeys((*old, *new)) if _comparable(name, running, yaml)]
    return tuple(Difference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))


def _comparable(name: str, *sides: Declaration) -> bool:
    if name.startswith("files."):
        return all(side.files is not None for side in sides)
    return name != "cluster" or all(side.cluster for side in sides)

import re
from pathlib import Path

import pytest

from devstack.compose.file import read_services, upstream_images
from devstack.compose.images import build, pinned, recipe
from devstack.compose.podman import Podman
from devstack.errors import StackError


class Written(Podman):
    """Writes down what Podman would be asked to do: nothing of it is run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked: list[str] = []

    def run(self, *words: str | Path) -> str:
        self.asked.append(" ".join(map(str, words)))
        return ""

    def compose(self, *words: str) -> str:
        return self.run("compose", *words)

    def succeeds(self, *words: str) -> bool:
        return True


def test_debians_java_can_write_its_certificates_and_our_builds_trust_whom_this_machine_trusts(tmp_path: Path) -> None:
    podman = Written(tmp_path)
    build(podman, ["postgres:17.6"], lambda said: None)
    stand_in, ours = podman.asked
    assert "--volume" not in stand_in
    assert f"--podman-build-args=--volume={tmp_path}/pip.conf:/etc/pip.conf:ro" in ours
    assert "cert = /etc/ssl/certs/ca-certificates.crt" in (tmp_path / "pip.conf").read_text()


@pytest.mark.parametrize("image", sorted(upstream_images(read_services())))
def test_every_published_image_has_a_stand_in_that_names_it(image: str) -> None:
    first = (recipe(image) / "Dockerfile").read_text().splitlines()[0]
    assert first.startswith(f"# Stands in for {image}: ")


def test_an_image_without_a_stand_in_is_refused() -> None:
    with pytest.raises(StackError, match=r"no stand-in for the image library/redis:8\.0.*images/redis/Dockerfile"):
        recipe("library/redis:8.0")


def test_pyspark_is_installed_by_its_pinned_hash() -> None:
    lines = pinned("pyspark").splitlines()
    assert lines[0].startswith("pyspark==")
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines[1:])
    with pytest.raises(StackError, match="does not pin nothing-such"):
        pinned("nothing-such")

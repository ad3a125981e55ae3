import re

import pytest

from devstack.compose.file import read_services, upstream_images
from devstack.compose.images import pinned, recipe
from devstack.errors import StackError


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

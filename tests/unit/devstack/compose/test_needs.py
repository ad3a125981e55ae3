import pytest

from devstack.compose.needs import PACKAGES, check, check_alone
from devstack.errors import StackError


def test_what_is_missing_is_said_in_one_sentence_with_the_line_that_installs_it() -> None:
    there = set(PACKAGES.values()) - {"runc", "mmdebstrap"}
    with pytest.raises(StackError) as refused:
        check(there.__contains__, user=0)
    assert str(refused.value) == (
        "make test-compose needs the Debian packages runc, mmdebstrap, which this machine does not have. "
        "apt-get install runc mmdebstrap"
    )


def test_only_root_can_run_it() -> None:
    with pytest.raises(StackError, match=r"has to be run by root.*Run it with sudo"):
        check(lambda program: True, user=1000)
    check(lambda program: True, user=0)


def test_containers_run_in_namespaces_of_their_own_only() -> None:
    with pytest.raises(StackError, match=r"in namespaces of their own only.*make test-compose"):
        check_alone("systemd")
    check_alone("catatonit")

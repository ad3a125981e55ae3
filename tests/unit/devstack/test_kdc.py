"""Keytabs of one principal, out of the one with all keys. The KDC itself is in the tests of YARN with Kerberos."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from devstack.kdc import Kdc
from devstack.processes import Processes
from tests.support.keytabs import keytab


def test_a_keytab_has_the_keys_of_one_principal_only(tmp_path: Path) -> None:
    kdc = Kdc(tmp_path, cast("Processes", None), ["streams", "rm/localhost", "rm"])
    all_of = [keytab("rm/localhost"), keytab("streams"), keytab("rm"), keytab("streams", key=b"x" * 16)]
    kdc.all_keys.write_bytes(b"\x05\x02" + b"".join(each[2:] for each in all_of))
    assert kdc.keytab("rm/localhost") == all_of[0]
    assert kdc.keytab("rm") == all_of[2]
    assert kdc.keytab("streams") == all_of[1] + all_of[3][2:]
    assert kdc.keytab("stream") == b"\x05\x02"

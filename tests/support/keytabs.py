"""Keytabs that are made here: of any principal, with any key."""

from __future__ import annotations

import base64


def keytab(principal: str = "streams", realm: str = "EXAMPLE.COM", key: bytes = b"k" * 32) -> bytes:
    """Return a keytab with one key of a principal, which is given without its realm.

    :param key: of 16 bytes: aes128-cts-hmac-sha1-96; of 32: aes256-cts-hmac-sha1-96.
    """
    names = [realm.encode(), *principal.encode().split(b"/")]
    counted = b"".join(_counted(name) for name in names)
    # Type of the name, time, version of the key, its type.
    entry = (len(names) - 1).to_bytes(2, "big") + counted + (1).to_bytes(4, "big") + bytes(4) + b"\x01"
    entry += {16: b"\x00\x11", 32: b"\x00\x12"}[len(key)] + _counted(key)
    return b"\x05\x02" + len(entry).to_bytes(4, "big") + entry


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _counted(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text

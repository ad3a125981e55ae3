"""Which names and ids pass, and that an id depends on what it is made of and on nothing else."""

from __future__ import annotations

import json
import re

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import (
    DEPLOYMENT,
    INCARNATION,
    application_name,
    application_of,
    check_id,
    check_stream_name,
    check_version,
    deployment_id,
    deployment_of,
    request_id,
)
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.texts import plain, plain_within


@pytest.mark.parametrize("name", ["o", "orders", "0", "orders-eu_2", "a" * 63])
def test_a_name_that_means_nothing_to_a_path_or_a_shell_passes(name: str) -> None:
    assert check_stream_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "Orders", "-orders", "_orders", ".orders", "a/b", "..", "a b", "a;b", "a$b", "orders\n", "é", "a" * 64]
)
def test_any_other_name_is_refused_and_shown(name: str) -> None:
    with pytest.raises(SpecError, match=re.escape(repr(name))) as refused:
        check_stream_name(name)
    assert refused.value.fields["name"] == name
    assert "Rename the stream." in str(refused.value)


@pytest.mark.parametrize(
    ("value", "pattern", "fits"),
    [
        ("orders-1-aaaa", DEPLOYMENT, True),
        ("a" * 128, DEPLOYMENT, True),
        ("a" * 129, DEPLOYMENT, False),
        ("orders-1-aaaa.00000001", DEPLOYMENT, False),
        ("orders-1-aaaa.00000001", INCARNATION, True),
        ("orders-1-aaaa.0000000g", INCARNATION, False),
        ("orders-1-aaaa.0000001", INCARNATION, False),
        ("orders-1-aaaa", INCARNATION, False),
        ("orders-1-aaaa.00000001\n", INCARNATION, False),
        ("../orders.00000001", INCARNATION, False),
    ],
)
def test_an_id_fits_its_pattern_as_a_whole(value: str, pattern: re.Pattern[str], fits: bool) -> None:
    if fits:
        assert check_id(value, pattern) == value
        return
    with pytest.raises(SpecError, match="is not an id of the form"):
        check_id(value, pattern)


def test_a_requests_id_is_the_same_for_the_same_parts_only() -> None:
    parts = ("dag", "run", "task", -1, "purpose")
    assert request_id(*parts) == request_id(*parts)
    assert re.fullmatch(r"[0-9a-f]{16}", request_id(*parts))
    others = [("dag", "run", "task", 0, "purpose"), ("dagrun", "", "task", -1, "purpose"), parts[:-1], ()]
    assert len({request_id(*parts), *(request_id(*other) for other in others)}) == 5


@pytest.mark.parametrize(
    ("version", "label"),
    [
        ("2.1.0", "2-1-0"),
        ("V2 (hotfix)", "v2-hotfix"),
        ("feature/x_y", "feature-x-y"),
        ("..", ""),
        ("a" * 40, "a" * 24),
    ],
)
def test_a_deployment_is_named_by_stream_and_version_in_safe_characters(version: str, label: str) -> None:
    found = deployment_id("orders", version, "dag", "run")
    assert re.fullmatch(rf"orders-{label}-[0-9a-f]{{8}}", found)
    assert check_id(found, DEPLOYMENT) == found
    assert found == deployment_id("orders", version, "dag", "run")


def test_versions_that_look_alike_are_two_deployments() -> None:
    assert deployment_id("orders", "2.1") != deployment_id("orders", "2-1")
    assert deployment_id("orders", "2.1", "run") != deployment_id("orders", "2.1", "other")


def test_the_longest_names_still_make_ids() -> None:
    deployment = deployment_id("a" * 63, "b" * 99)
    assert check_id(f"{deployment}.0123abcd", INCARNATION)


@pytest.mark.parametrize(
    ("incarnation", "deployment"), [("orders-1-aaaa.00000001", "orders-1-aaaa"), ("orders-1-aaaa", ""), ("", "")]
)
def test_an_incarnation_names_its_deployment(incarnation: str, deployment: str) -> None:
    assert deployment_of(incarnation) == deployment


def test_an_application_is_named_by_its_deployment_and_by_the_beginning_of_its_control_log_s_identity() -> None:
    assert application_name("orders", "2.1.0", "orders-2-1-0-1a2b", "5e6f7a8b" * 4) == (
        "orders 2.1.0 [orders-2-1-0-1a2b] 5e6f7a8b"
    )
    assert application_name("orders", "2.1.0", "orders-2-1-0-1a2b") == "orders 2.1.0 [orders-2-1-0-1a2b]"


@pytest.mark.parametrize("version", ["1", "2.1.0-rc.1+build_7", "x" * 64])
def test_a_version_is_a_plain_label(version: str) -> None:
    assert check_version(version) == version


@pytest.mark.parametrize(
    "version", ["", "1 [payments-2-1a2b]", 'a"b', "a'b", "1\n", "a b", "x" * 65, "caf\u00e9", "a/b"]
)
def test_a_version_that_means_something_in_a_name_or_a_page_is_refused(version: str) -> None:
    with pytest.raises(SpecError, match="cannot be a release's version"):
        check_version(version)


@pytest.mark.parametrize(
    ("container", "application"),
    [
        ("container_1410901177871_0001_01_000005", "application_1410901177871_0001"),
        ("container_e17_1410901177871_0012_01_000005", "application_1410901177871_0012"),
        ("", ""),
        ("driver-20261121023732-0002", ""),
        ("container_x", ""),
    ],
)
def test_a_container_of_yarn_names_its_application(container: str, application: str) -> None:
    assert application_of(container) == application


UNDECODABLE = b"/data/\x80".decode(errors="surrogateescape")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a line\n\tand one that is déjà vu \U0001f600", "a line\n\tand one that is déjà vu \U0001f600"),
        (UNDECODABLE, "/data/\ufffd"),
        ("\ud83d alone", "\ufffd alone"),
        ("NUL \0", "NUL \ufffd"),
        ("\x1b]52;c;aGk=\x07", "\ufffd]52;c;aGk=\ufffd"),
        ("\x9b31m", "\ufffd31m"),
        ("\u202etxet", "\ufffdtxet"),
    ],
)
def test_what_cannot_be_encoded_or_steers_a_terminal_is_replaced(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert plain(text).encode()


def test_keys_and_inner_texts_are_made_plain_and_all_else_stays() -> None:
    found = plain_within({"a\0": ["b\0", 1, None, {"c": "d\0"}]})
    assert found == {"a\ufffd": ["b\ufffd", 1, None, {"c": "d\ufffd"}]}


def test_what_a_driver_wrote_is_read_plain() -> None:
    beat = Heartbeat.from_json(json.dumps({"message": UNDECODABLE}).encode(), "orders-1-aaaa.00000001")
    assert beat.message == "/data/\ufffd"
    body = {"kind": "failed", "by": "driver", "at": 1, "nonce": "n", "reason": UNDECODABLE}
    assert Record.from_json(json.dumps(body).encode(), 1)["reason"] == "/data/\ufffd"


def test_an_error_can_be_encoded() -> None:
    assert str(StreamError(f"Found {UNDECODABLE}.", next_step="Look.\0")) == "Found /data/\ufffd. Look.\ufffd"

"""What is shown of a driver's log: its end, readable, and without secrets."""

from __future__ import annotations

import pytest

from airflow_stream_provider.clusters.log_tail import READ_BYTES, SHOWN_BYTES, SHOWN_LINES, tail

SECRET = "hunter2"
SENTENCE = "SpecError: The driver's JVM has no Kafka client on its class path."


def test_it_is_the_last_lines_each_one_indented() -> None:
    shown = tail(log="".join(f"line {number}\n\n" for number in range(100))).splitlines()
    assert shown == [f"  | line {number}" for number in range(100 - SHOWN_LINES, 100)]


def test_two_logs_share_the_room_and_one_that_is_empty_takes_none() -> None:
    long = "x\n" * 100
    shown = tail(stderr=long, stdout=f"{long}{SENTENCE}\n").splitlines()
    assert (shown[0], shown[SHOWN_LINES // 2 + 1], shown[-1]) == ("  stderr:", "  stdout:", f"  | {SENTENCE}")
    assert len(shown) == SHOWN_LINES + 2
    assert tail(stderr=" \n", stdout=SENTENCE) == f"  | {SENTENCE}"
    assert tail(stderr="", stdout="") == ""


def test_long_lines_are_cut_at_their_beginning() -> None:
    shown = tail(log=f"{'ä' * SHOWN_BYTES} {SENTENCE}")
    assert shown.startswith("  | …ä")
    assert shown.endswith(SENTENCE)
    assert len(shown.encode()) <= SHOWN_BYTES + 10


def test_what_our_runtime_has_said_last_is_shown_though_others_have_written_much_since() -> None:
    """A client of Kafka writes its settings before each try."""
    said = "2026-11-23 16:38:14 WARNING airflow_stream_provider.runtime.places: It cannot be used now."
    settings = "\tssl.protocol = TLSv1.3\n" * 70
    shown = tail(log=f"{said.replace('now', 'yet')}\n{settings}{said}\n{settings}").splitlines()
    assert (len(shown), shown[:2]) == (SHOWN_LINES, [f"  | {said}", "  | …"])
    assert tail(log=f"{settings}{said}\n").splitlines()[-1] == f"  | {said}"
    assert tail(log=f"{settings}{said}\n").count(said) == 1


def test_what_steers_a_terminal_is_not_there() -> None:
    shown = tail(log="\x1b[31mERROR\x1b[0m \x00it\x07 broke\rprogress\r\nnext\u202e")
    assert shown.splitlines() == ["  | ERROR \ufffdit\ufffd broke", "  | progress", "  | next\ufffd"]


@pytest.mark.parametrize(
    "line",
    [
        f"sasl.jaas.config=Module required password={SECRET};",
        f"pass\x1b[0mword={SECRET}",
        f"spark.ssl.keyStorePassword   {SECRET}",
        f"(spark.hadoop.fs.s3a.secret.key,{SECRET})",
        f"fs.azure.account.key.account.dfs.core.windows.net: {SECRET}",
        f"token of my.vault.token: {SECRET}",
        f"my.service.credentials\t{SECRET}",
        f"https://airflow:{SECRET}@registry/x",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
    ],
)
def test_secrets_are_not_there_and_what_follows_is(line: str) -> None:
    shown = tail(log=f"{line}\n{SENTENCE}\n")
    assert SECRET not in shown
    assert shown.splitlines()[-1] == f"  | {SENTENCE}"


def test_of_what_began_before_the_part_that_was_read_nothing_is_shown() -> None:
    """Its beginning may have said that it is a secret."""
    cut = f"{SECRET * READ_BYTES}\n{SENTENCE}\n"[-READ_BYTES:]
    assert tail(log=cut) == f"  | {SENTENCE}"
    assert tail(log=f"{SECRET}\n-----END RSA PRIVATE KEY-----\n{SENTENCE}\n").splitlines() == [
        "  | ***",
        f"  | {SENTENCE}",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "org.apache.hadoop.security.token.SecretManager$InvalidToken: token is expired",
        "at org.apache.hadoop.security.token.Token.decode(Token.java:7)",
        'File "/tmp/lifecycle/secrets.py", line 5, in redact',
        "python3: can't open file '/data/streams/orders/releases/abc/launcher.py': [Errno 2] No such file or directory",
        "fs.s3a.aws.credentials.provider org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "Set security.protocol and bootstrap.servers in the file that STREAM_CONTROL_PROPERTIES names.",
    ],
)
def test_what_only_sounds_like_a_secret_is_shown(line: str) -> None:
    assert tail(log=line) == f"  | {line}"


def test_a_long_log_takes_no_long_time() -> None:
    """Each of these made a pattern that looks back and forth quadratic."""
    for unit in (" ", "\t", " \t", " =", "a.b ", "a.", "a-", ",a.b"):
        tail(log="a.b" + unit * ((READ_BYTES - 10) // len(unit)) + "\nx\n")


@pytest.mark.parametrize("between", ["=", " = ", ":\t", " ,", "   ", "\t"])
def test_a_setting_is_known_whatever_stands_between_name_and_value(between: str) -> None:
    assert tail(log=f"my.secret{between}{SECRET}") == "  | ***"

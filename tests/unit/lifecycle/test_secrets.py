"""What is redacted from texts, and what stays readable; tests/unit/clusters/test_secrets.py has the corpus of names."""

from __future__ import annotations

import time

import pytest

from airflow_stream_provider.lifecycle.texts import redact, redact_within


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mongodb://u:p@h/db", "mongodb://***@h/db"),
        ("cannot reach http://user:p@ss@host:8080/json/", "cannot reach http://***@host:8080/json/"),
        ("spark://user@host", "spark://user@host"),
        ("s3a://bucket/a@b", "s3a://bucket/a@b"),
        ("password=p; user=u", "password=*** user=u"),
        ("FATAL: password: p", "FATAL: password: ***"),
        ("Invalid token: ')'", "Invalid token: ')'"),
        ("password authentication failed for user u", "password authentication failed for user u"),
        ("{'password': 'a b', 'user': 'u'}", "{'password': ***, 'user': 'u'}"),
        ("['--token', 'a', 'b']", "['--token', ***, 'b']"),
        ("--token --verbose", "--token --verbose"),
        ("eyJhbGciOiJIUzI1NiJ9.e30.c2ln-x is", "*** is"),
        ("--fs.azure.account.key.a.b k --x", "--fs.azure.account.key.a.b *** --x"),
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        ("key AKIAIOSFODNN7EXAMPLE is unknown", "key *** is unknown"),
        (
            "a -----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- b",
            "a *** b",
        ),
        ("to https://hooks.slack.com/services/T0/B0/x1 failed", "to https://hooks.slack.com/services/*** failed"),
        ("https://discord.com/api/webhooks/12/a-b", "https://discord.com/api/webhooks/***"),
        ("https://discordapp.com/api/v10/webhooks/12/a", "https://discordapp.com/api/v10/webhooks/***"),
        ("https://acme.webhook.office.com/webhookb2/a@b/I/c", "https://acme.webhook.office.com/***"),
        ("https://outlook.office.com/webhook/a@b", "https://outlook.office.com/webhook/***"),
        ("see https://discord.com/channels/1/2", "see https://discord.com/channels/1/2"),
        ("the number of tokens is 5", "the number of tokens is 5"),
        (
            "Map(a.b -> c, kafka.ssl.truststore.password -> p, d -> e)",
            "Map(a.b -> c, kafka.ssl.truststore.password -> *** d -> e)",
        ),
        ("Map(password -> p)", "Map(password -> ***"),
        ("Map(sessionToken->p)", "Map(sessionToken->***"),
        (
            "[('spark.app.name', 'a'), ('spark.ssl.keyPassword', 'p')]",
            "[('spark.app.name', 'a'), ('spark.ssl.keyPassword', ***)]",
        ),
        ('("sasl.jaas.config", "p q")', '("sasl.jaas.config", ***)'),
        ("Array((spark.app.name,a),(spark.ssl.keyPassword,p))", "Array((spark.app.name,a),(spark.ssl.keyPassword,***"),
        ("(fs.s3a.session.token,p)", "(fs.s3a.session.token,***"),
        ("transform(tokens, token -> upper(token))", "transform(tokens, token -> upper(token))"),
        ("INSERT INTO t (token, day)", "INSERT INTO t (token, day)"),
        ("GROUP BY (t.api_key,t.day)", "GROUP BY (t.api_key,t.day)"),
        ("split('token', 'a')", "split('token', 'a')"),
    ],
)
def test_only_the_value_goes(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown


def test_every_text_within_a_value_is_redacted() -> None:
    found = redact_within({"notes": ["password=a", 1], "queries": {"q": ("token=b", None)}})
    assert found == {"notes": ["password=***", 1], "queries": {"q": ["token=***", None]}}


def test_a_long_text_takes_no_long_time() -> None:
    """Each of these made a pattern that looks back and forth quadratic."""
    for unit in (
        "://",
        "a:",
        '"',
        "secret",
        "--",
        "-----BEGIN PRIVATE KEY",
        "password='",
        "https://",
        "https://discord",
        "(a.b.secret",
        "('secret",
        "(",
        "secret-> ",
        "secret ",
    ):
        redact(unit * (20_000 // len(unit)))


def test_a_record_full_of_what_begins_like_a_token_takes_no_long_time() -> None:
    """A driver that looks through such a text with the interpreter's lock held loses its lease."""
    text, began = "eyJaaaaaaaa-" * 20_000, time.process_time()
    assert redact(text) == text
    assert time.process_time() - began < 20.0

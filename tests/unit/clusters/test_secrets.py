"""One table of what conf, environment and arguments may not hold, and of what only sounds like it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_stream_provider.clusters import (
    SecretInConf,
    refuse_secret_arguments,
    refuse_secret_conf,
    refuse_secret_environment,
    refuse_secret_values,
)
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError, StreamError

REFUSED_ENTRIES = [
    ("spark.hadoop.fs.s3a.secret.key", "hunter2"),
    ("spark.hadoop.fs.s3a.access.key", "hunter2"),
    ("spark.my.access_key", "hunter2"),
    ("spark.ssl.keyPassword", "hunter2"),
    ("spark.ssl.passwd", "hunter2"),
    ("spark.ssl.passphrase", "hunter2"),
    ("spark.my.TOKEN", "hunter2"),
    ("spark.my.tokens", "hunter2"),
    ("spark.kafka.sasl.jaas.config", "hunter2"),
    ("spark.driver.extraJavaOptions", "-Xss4m -Djavax.net.ssl.trustStorePassword=hunter2"),
    ("spark.driver.extraJavaOptions", "-Dfs.s3a.secret.key=hunter2"),
    ("spark.my.json", '{"password": "hunter2"}'),
    ("spark.my.dict", "{'token' : 'hunter2'}"),
    ("spark.my.assignment", "access-key = hunter2"),
    ("spark.kafka.jaas", 'PlainLoginModule required username="u" password="hunter2";'),
    ("spark.hadoop.fs.azure.account.key.x.blob.core.windows.net", "hunter2"),
    ("spark.hadoop.fs.gs.auth.service.account.private.key", "hunter2"),
    ("spark.my.private_key", "hunter2"),
    ("spark.my.credentials", "hunter2"),
    ("spark.my.api_key", "hunter2"),
    ("spark.my.apikey", "hunter2"),
    ("spark.my.pwd", "hunter2"),
    ("spark.hadoop.fs.s3a.encryption.key", "hunter2"),
    ("spark.executorEnv.AWS_ACCESS_KEY_ID", "hunter2"),
    ("spark.executorEnv.AWS_SECRET_ACCESS_KEY", "hunter2"),
    ("spark.schema.registry.basic.auth.user.info", "user:hunter2"),
    ("spark.mongodb.read.connection.uri", "mongodb://u:hunter2@host/db"),
    ("spark.my.jdbc", "jdbc:postgresql://u:hunter2@host/db"),
    ("spark.my.git", "https://hunter2@host/repository"),
    ("spark.my.key", "-----BEGIN RSA PRIVATE KEY-----\nhunter2"),
    ("spark.my.header", "Authorization: Basic hunter2"),
    ("spark.my.address", "https://account.blob.core.windows.net/x?sv=1&sig=hunter2"),
    ("spark.my.jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2"),
    ("spark.my.words", "--api-key hunter2"),
    ("spark.kubernetes.executor.secretKeyRef.KEY", "hunter2"),
    ("spark.kubernetes.executor.secretKeyRef.KEY", "secret:key:hunter2"),
    ("spark.kubernetes.executor.secretKeyRef.KEY", "secret:key,hunter2"),
    ("spark.kubernetes.executor.secrets.kafka-tls", "hunter2"),
    ("spark.kubernetes.executor.secretKeyRef", "secret:hunter2"),
    ("my.spark.kubernetes.executor.secretKeyRef.KEY", "secret:hunter2"),
    ("spark.kafka.clusters.x.sasl.token.mechanism", "hunter2"),
    ("spark.my.escaped", '{\\"password\\": \\"hunter2\\"}'),
]

ACCEPTED_ENTRIES = [
    ("spark.jars", "/jars/spark-token-provider-kafka-0-10_2.13-4.0.0.jar"),
    ("spark.jars.packages", "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"),
    ("spark.hadoop.fs.s3a.aws.credentials.provider", "com.amazonaws.auth.WebIdentityTokenCredentialsProvider"),
    ("spark.my.empty", "password="),
    ("spark.ssl.keyPasswordFile", "/run/password"),
    ("spark.kubernetes.authenticate.oauthTokenFile", "/run/token"),
    ("spark.hadoop.hadoop.security.credential.provider.path", "jceks://file/run/keys.jceks"),
    ("spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS", "/run/key.json"),
    ("spark.my.checkpoint", "abfss://container@account.dfs.core.windows.net/orders"),
    ("spark.my.page", "http://host:8080/path@v1"),
    ("spark.sql.shuffle.partitions", "8"),
]

# Of a conf only: where Spark finds a secret, and how it uses one.
ACCEPTED_REFERENCES = [
    ("spark.kubernetes.executor.secretKeyRef.AWS_ACCESS_KEY_ID", "storage:login"),
    ("spark.kubernetes.driver.secretKeyRef.TOKEN", "my.vault-1:the_token.pem"),
    ("spark.kubernetes.executor.secrets.kafka-tls", "/etc/kafka/tls"),
    ("spark.kubernetes.driver.secrets.kafka-tls", "/etc/kafka"),
    ("spark.kafka.clusters.x.sasl.token.mechanism", "SCRAM-SHA-512"),
]

# The arguments, and what the error names.
REFUSED_ARGUMENTS = [
    (["--token", "hunter2"], "The argument '--token'"),
    (["-token", "hunter2"], "The argument '-token'"),
    (["--kafka-password=hunter2"], "The argument '--kafka-password'"),
    (["--kafka.password", "hunter2"], "The argument '--kafka.password'"),
    (["--keyPassword=hunter2"], "The argument '--keyPassword'"),
    (["--keyPassword", "hunter2"], "The argument '--keyPassword'"),
    (["--ACCESS_KEY=hunter2"], "The argument '--ACCESS_KEY'"),
    (["--db-passwd="], "The argument '--db-passwd'"),
    (["--sasl.jaas.config=hunter2"], "The argument '--sasl.jaas.config'"),
    (["app", "password=hunter2"], "The argument 'password'"),
    (["app", "password = hunter2"], "Argument 2"),
    (["--java=-Dssl.password=hunter2"], "Argument 1"),
    (["-Djavax.net.ssl.trustStorePassword=hunter2"], "Argument 1"),
    (["-Dfs.s3a.access.key=hunter2"], "Argument 1"),
    (["-Dfs.s3a.secret.key=hunter2"], "Argument 1"),
    (["--conf", 'PlainLoginModule required username="u" password="hunter2";'], "Argument 2"),
    (["--conf", '{"password": "hunter2"}'], "Argument 2"),
    (["https://host/path?token=hunter2"], "Argument 1"),
    (["--pwd=hunter2"], "The argument '--pwd'"),
    (["--api-key", "hunter2"], "The argument '--api-key'"),
    (["--api_key=hunter2"], "The argument '--api_key'"),
    (["--credentials=hunter2"], "The argument '--credentials'"),
    (["--credentials", "hunter2"], "The argument '--credentials'"),
    (["--private-key", "hunter2"], "The argument '--private-key'"),
    (["--db-url=postgresql://u:hunter2@host/db"], "Argument 1"),
    (["--db-url", "postgresql://u:hunter2@host/db"], "Argument 2"),
    (["-Dfs.azure.account.key.x.blob.core.windows.net=hunter2"], "Argument 1"),
    (["--conf", "spark.hadoop.fs.azure.account.key.x.blob.core.windows.net=hunter2"], "The argument 'spark.hadoop.fs"),
    (["fs.azure.account.key.x.blob.core.windows.net=hunter2"], "The argument 'fs.azure.account.key.x.blob"),
    (["--fs.azure.account.key.x.blob.core.windows.net", "hunter2"], "The argument '--fs.azure.account.key.x.blob"),
    (["--fs.azure.account.oauth2.client.secret.x.dfs.core.windows.net=hunter2"], "The argument '--fs.azure.account"),
    (['--json={"user": "u", "password": "hunter2"}'], "Argument 1"),
]

ACCEPTED_ARGUMENTS = [
    ["--max-tokens", "5"],
    ["--max-tokens=5"],
    ["max_tokens=5"],
    ["--tokenizer", "bpe"],
    ["--tokenizer=bpe"],
    ["--password-file=/run/password"],
    ["--topic", "passwords-changed"],
    ["--topic", "secret"],
    ["/jars/spark-token-provider-kafka-0-10_2.13-4.0.0.jar"],
    ["-Ddepth=3", "-D", "-", "--", ""],
    ["--credentials", "/run/key.json"],
    ["--credentials=/run/key.json"],
    ["--checkpoint", "abfss://container@account.dfs.core.windows.net/orders"],
    ["--key", "order_id"],
    ["model.max_tokens=512", "--model.tokenizer", "bpe"],
    ["--oauth.token.endpoint.url", "https://host/token"],
    ["--private.key.file", "/run/key.pem"],
]


@pytest.mark.parametrize(("key", "value"), REFUSED_ENTRIES)
def test_a_conf_entry_that_looks_like_a_secret_is_refused_without_its_value(key: str, value: str) -> None:
    with pytest.raises(SecretInConf, match="looks like a secret") as refused:
        refuse_secret_conf({"spark.executor.memory": "1g", key: value})
    assert key in refused.value.message
    assert refused.value.fields == {"key": key}
    assert "hunter2" not in json.dumps([str(refused.value), refused.value.next_step, refused.value.fields])
    assert isinstance(refused.value, SpecError)
    assert isinstance(refused.value, ClusterError)


@pytest.mark.parametrize(("key", "value"), REFUSED_ENTRIES)
def test_no_error_of_ours_shows_the_value(key: str, value: str) -> None:
    error = StreamError(f"Spark refused {key}={value}", next_step=f"Look at --conf {key}={value}.", conf=key)
    assert "hunter2" not in str(error) + error.message + error.next_step + repr(error)


@pytest.mark.parametrize(("key", "value"), REFUSED_ENTRIES)
def test_an_environment_variable_that_looks_like_a_secret_is_refused_without_its_value(key: str, value: str) -> None:
    name = key.replace(".", "_").upper()
    with pytest.raises(SecretInConf, match=f"environment variable {name} looks like a secret") as refused:
        refuse_secret_environment({"REGION": "eu", name: value})
    assert "hunter2" not in json.dumps([str(refused.value), refused.value.next_step, refused.value.fields])


@pytest.mark.parametrize(("key", "value"), ACCEPTED_ENTRIES)
def test_a_conf_value_that_only_mentions_a_secret_passes(key: str, value: str) -> None:
    refuse_secret_conf({key: value})
    refuse_secret_environment({key.replace(".", "_").upper(): value})


@pytest.mark.parametrize(("key", "value"), ACCEPTED_REFERENCES)
def test_a_conf_entry_that_says_where_a_secret_is_passes(key: str, value: str) -> None:
    refuse_secret_conf({key: value})


@pytest.mark.parametrize(("arguments", "named"), REFUSED_ARGUMENTS)
def test_an_argument_that_looks_like_a_secret_is_refused_without_its_value(arguments: list[str], named: str) -> None:
    with pytest.raises(SpecError, match="looks like a secret") as refused:
        refuse_secret_arguments(arguments)
    assert refused.value.message.startswith(named)
    assert "hunter2" not in json.dumps([str(refused.value), refused.value.next_step, refused.value.fields])


@pytest.mark.parametrize("arguments", [arguments for arguments, _ in REFUSED_ARGUMENTS])
def test_no_error_of_ours_shows_the_arguments_of_a_command(arguments: list[str]) -> None:
    error = StreamError(f"Command {['spark-submit', *arguments]} failed: spark-submit {' '.join(arguments)}")
    assert "hunter2" not in str(error)


@pytest.mark.parametrize("arguments", ACCEPTED_ARGUMENTS)
def test_an_argument_that_only_mentions_a_secret_passes(arguments: list[str]) -> None:
    refuse_secret_arguments(arguments)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"token": "hunter2"}, "token"),
        ({"password": 123456}, "password"),
        ({"smtp_password": "hunter2"}, "smtp_password"),
        ({"headers": {"X-Api-Key": "hunter2"}}, "headers.X-Api-Key"),
        ({"headers": {"Authorization": "Basic hunter2"}}, "headers.Authorization"),
        ({"to": ["a@host", "https://u:hunter2@host/hook"]}, "to.1"),
        ({"text": "Call us, password: hunter2"}, "text"),
        ({"url": "https://u:hunter2@host/{{ dag.dag_id }}"}, "url"),
        ({"passwords": {"token": ["", "hunter2"]}}, "passwords.token.1"),
    ],
)
def test_an_argument_of_a_recipient_that_looks_like_a_secret_is_refused(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError, match=f"The argument '{path}' looks like a secret") as refused:
        refuse_secret_values(arguments)
    assert "hunter2" not in json.dumps([str(refused.value), refused.value.next_step, refused.value.fields])


def test_arguments_of_a_recipient_that_only_mention_a_secret_pass() -> None:
    refuse_secret_values(
        {
            "slack_conn_id": "slack_default",
            "token": "{{ conn.pager.password }}",
            "password": None,
            "max_tokens": 5,
            "text": "{{ alert.text }}\nIt is not about the token.",
            "to": ["team@host"],
        }
    )

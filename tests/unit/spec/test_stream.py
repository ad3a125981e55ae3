from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import BAD
from airflow_stream_provider.lag.report import Alarm, Verdict
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.spec.stream import Strategy, StreamSpec, load_spec

GOOD = """\
name: orders
application: apps/orders.py
version: "2.1.0"
cluster: spark_default
kafka: kafka_default
control: file:///data/streams
upgrade: {strategy: handover, soak: 10m, keep_previous: 1h30m, lease_seconds: 20}
lag: {max_records: 10000, max_seconds: 60}
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(text: str, name: str = "orders.yaml") -> Path:
        path = tmp_path / "streams" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return _write


def test_a_stream_is_read(write: Write) -> None:
    spec = load_spec(write(GOOD))
    assert (spec.name, spec.version, spec.upgrade.strategy) == ("orders", "2.1.0", Strategy.HANDOVER)
    assert (spec.upgrade.soak, spec.upgrade.keep_previous) == (600.0, 5400.0)
    assert (spec.lag.limits.max_records, spec.lag.limits.max_seconds) == (10000, 60.0)
    assert spec.upgrade.policy(("/old",)) == Policy(lease_seconds=20.0, changed_checkpoints=("/old",))


def test_what_is_bad_about_a_lag_is_read(write: Write) -> None:
    lag = "lag: {transaction: 20m, verdicts: [WARN, STOP], alarms: [LOST_DATA]}"
    limits = load_spec(write(GOOD.replace("lag: {max_records: 10000, max_seconds: 60}", lag))).lag.limits
    assert limits.verdicts == (Verdict.WARN, Verdict.STOP)
    assert limits.alarms == (Alarm.LOST_DATA,)
    assert limits.ceilings.transaction == 1200.0
    none = load_spec(write(GOOD.replace("max_seconds: 60", "verdicts: [], alarms: []"))).lag.limits
    assert (none.verdicts, none.alarms, none.max_records) == ((), (), 10000)
    unsaid = load_spec(write(GOOD)).lag.limits
    assert (unsaid.verdicts, unsaid.alarms, unsaid.ceilings.transaction) == (BAD, tuple(Alarm), None)


def test_the_pause_of_a_driver_is_read(write: Write) -> None:
    spec = load_spec(write(GOOD.replace("lease_seconds: 20", "lease_seconds: 20, pause_seconds: 12m")))
    assert spec.policy() == Policy(lease_seconds=20.0, pause_seconds=720.0, loss_seconds=60.0)
    assert load_spec(write(GOOD)).policy().pause_seconds == 600.0


def test_records_that_kafka_shows_no_more_are_waited_for_as_long_as_a_lag_may_last(write: Write) -> None:
    assert load_spec(write(GOOD)).policy().loss_seconds == load_spec(write(GOOD)).lag.max_seconds == 60.0
    without = load_spec(write("name: a\napplication: a.py\nversion: v1\ncluster: c\ncontrol: file:///d\n"))
    assert without.policy().loss_seconds == 300.0


def test_a_ledger_that_nothing_would_measure_by_is_refused(write: Write) -> None:
    ledger = GOOD.replace("max_seconds: 60", "ledger: orders_db")
    assert load_spec(write(ledger)).lag.ledger == "orders_db"
    with pytest.raises(SpecError, match=r"lag\.ledger is set, and kafka is not"):
        load_spec(write(ledger.replace("kafka: kafka_default\n", "")))


def test_the_ledger_that_is_to_refuse_a_lost_driver_is_read(write: Write) -> None:
    ledger = GOOD.replace("max_seconds: 60", "ledger: orders_db")
    assert load_spec(write(ledger)).policy().ledger == "", "it is measured by alone"
    refuses = ledger.replace("lease_seconds: 20", "lease_seconds: 20, fence_by_ledger: true")
    assert load_spec(write(refuses)).policy().ledger == "orders_db"
    with pytest.raises(SpecError, match=r"fence_by_ledger is set, and lag\.ledger is not"):
        load_spec(write(GOOD.replace("lease_seconds: 20", "fence_by_ledger: true")))


def test_paths_start_beside_the_folder_of_the_yaml_files(write: Write, tmp_path: Path) -> None:
    spec = load_spec(write(GOOD))
    assert spec.path("apps/orders.py") == tmp_path / "apps" / "orders.py"
    assert spec.path("/srv/orders.py") == Path("/srv/orders.py")


def test_only_the_needed_fields_are_needed(write: Write) -> None:
    spec = load_spec(write("name: a\napplication: a.py\nversion: v1\ncluster: c\ncontrol: file:///d\n"))
    assert spec.upgrade.policy() == Policy()
    assert spec.kafka is None
    assert (spec.watch.schedule, spec.notify, spec.policy().offsets_group) == (60.0, (), "")


def test_a_watch_and_a_group_are_read(write: Write) -> None:
    text = GOOD + (
        "offsets_group: orders-stream\n"
        "watch: {schedule: 5m, for_at_least: 30s}\n"
        "notify: [{call: collections.Counter, arguments: {a: 1, b: '1', on: 2026-11-25}}, {call: builtins.print}]\n"
    )
    spec = load_spec(write(text))
    assert spec.policy(("/old",)) == Policy(
        lease_seconds=20.0, changed_checkpoints=("/old",), offsets_group="orders-stream", loss_seconds=60.0
    )
    assert (spec.watch.schedule, spec.watch.for_at_least) == (300.0, 30.0)
    assert [(each.call, each.arguments) for each in spec.notify] == [
        ("collections.Counter", {"a": 1, "b": "1", "on": "2026-11-25"}),
        ("builtins.print", {}),
    ]
    assert load_spec(write(GOOD + "watch: {schedule: null}\n")).watch.schedule is None


@pytest.mark.parametrize(
    "written",
    [
        *("5", "true", "True", "NO", "yes", "on", "y", "12:30", "+10:00", "1.10", "00123", "0777", "0x1F", "1_000"),
        *("2026-11-23", "2026-30-11", "2026-11-23T10:00:00Z", ".inf", "=", "1.", "1e3", "9" * 5000, "1.2345678901234"),
    ],
)
def test_a_text_is_what_was_written(write: Write, written: str) -> None:
    """YAML 1.1 would make other values of these."""
    assert load_spec(write(GOOD.replace("lag:", f"offsets_group: {written}\nlag:"))).offsets_group == written
    more = f"arguments: [--x, {written}]\nconf: {{a.b: {written}}}\nenvironment: {{A: {written}}}\n"
    spec = load_spec(write(GOOD + more))
    assert (spec.arguments, spec.conf, spec.environment) == (("--x", written), {"a.b": written}, {"A": written})
    if written.isalpha():
        assert load_spec(write(GOOD + f"environment: {{{written}: x}}\n")).environment == {written: "x"}


def test_a_text_in_quotes_may_be_any(write: Write) -> None:
    spec = load_spec(write(GOOD + "arguments: ['null', \"~\", '', \"1\"]\nconf: {'on': 'no'}\n"))
    assert (spec.arguments, spec.conf) == (("null", "~", "", "1"), {"on": "no"})


def test_the_environment_of_a_stream_is_a_mapping_of_names_to_texts(write: Write) -> None:
    spec = load_spec(write(GOOD + "environment: {REGION: eu, BATCH: 5, VERBOSE: true}\n"))
    assert spec.environment == {"REGION": "eu", "BATCH": "5", "VERBOSE": "true"}
    assert load_spec(write(GOOD)).environment == {}


@pytest.mark.parametrize(
    "name", ["A-B", "1A", '""', "A B", "'A=B'", "AIRFLOW__CORE__FERNET", "AIRFLOW_STREAM_SUBMISSION"]
)
def test_what_is_no_name_of_a_variable_is_refused(write: Write, name: str) -> None:
    with pytest.raises(SpecError, match="cannot be set as an environment variable"):
        load_spec(write(GOOD + f"environment: {{{name}: x}}\n"))


@pytest.mark.parametrize(
    ("old", "new", "line", "sentence"),
    [
        ("soak: 10m", "soak: 10 parsecs", 7, "upgrade.soak: is not a duration: write it like 90s, 10m or 1h30m."),
        ('"2.1.0"', "", 3, 'version: is not a text. Write a text, such as `version: "1.0"`.'),
        ("lag:", "arguments: [--x, ~]\nlag:", 8, "arguments.1: is not a text. Write a text."),
        ("lag:", "conf: {a: null}\nlag:", 8, "conf.a: is not a text. Write a text."),
        ("name: orders", "name: ../orders", 1, "name: '../orders' cannot be a stream's name"),
        ("cluster:", "clutser:", 4, "clutser: there is no such field. Did you mean `cluster`?"),
        (
            "cluster: spark_default\n",
            "",
            1,
            "cluster: this field is missing. Add `cluster: spark_default`, the id of an Airflow connection of type",
        ),
        (
            "control: file:///data/streams\n",
            "",
            1,
            "control: this field is missing. Add `control: file:///data/streams`, a folder that Airflow and all "
            "drivers mount, made once by `airflow streams init`.",
        ),
        ("spark_default", "spark://master:7077", 4, "cluster: is an address, and not the id of an Airflow connection"),
        ("spark_default", "local[2]", 4, "cluster: is an address, and not the id of an Airflow connection"),
        ("kafka_default", "host:9092", 5, "kafka: is an address, and not the id of an Airflow connection"),
        ("kafka_default", "'a:9092,b:9092'", 5, "kafka: is an address, and not the id of an Airflow connection"),
        ("lag:", "storage_connection: s3://x\nlag:", 8, "storage_connection: is an address, and not the id"),
        (
            "lag:",
            "conf: {spark.master: yarn}\nlag:",
            8,
            "conf: spark.master has no effect, as the connection in `cluster` decides it: leave it out",
        ),
        ("lag:", "conf: {spark.submit.deployMode: client}\nlag:", 8, "conf: spark.submit.deployMode has no effect"),
        ("lag:", "conf: spark.cores.max=2\nlag:", 8, "conf: is not a mapping. Write a mapping, such as `conf: {spark"),
        (
            "lag:",
            "arguments: --kafka host:9092\nlag:",
            8,
            'arguments: is not a list. Write a list, such as `arguments: [--kafka, "host:9092"]`.',
        ),
        (
            "lag:",
            "notify: [{call: a.b, arguments: x}]\nlag:",
            8,
            "notify.0.arguments: is not a mapping. Write a mapping.",
        ),
        ("lag:", "notify: [{}]\nlag:", 8, "notify.0.call: this field is missing. Add `call: ...`."),
        ("lag:", "notify: people.page\nlag:", 8, "notify: is not a list. Write a list, such as `notify: [{call: "),
        ("lag: {max_records: 10000, max_seconds: 60}", "lag: 60", 8, "lag: is not a mapping. Write a mapping, such as"),
        ("lag:", "\tlag:", 8, ": this line begins with a tab, and YAML takes only spaces there. Put spaces"),
        ("file:///data", "s3://data", 6, "control: No control log can live on s3:"),
        ("max_records: 10000", "max_records: many", 8, "lag.max_records: is not a whole number, such as 1000"),
        ("max_records", "max_rows", 8, "lag.max_rows: there is no such field. Did you mean `max_records`?"),
        ("strategy: handover", "strategy: hope", 7, "upgrade.strategy: Input should be 'handover' or 'restart'."),
        ("lag:", "name: again\nlag:", 8, "name: this field is given twice. Keep one of the two."),
        ("lag:", "watch: {schedule: '* * * * *'}\nlag:", 8, "watch.schedule: is not a duration"),
        ("lag:", "notify: [{cal: a.b}]\nlag:", 8, "notify.0.cal: there is no such field. Did you mean `call`?"),
        (
            "lag:",
            "notify: [{call: a.b, arguments: {headers: {token: x}}}]\nlag:",
            8,
            "notify.0.arguments: The argument 'headers.token' looks like a secret",
        ),
        ("lag:", "notify: [{call: a.b, arguments: {x: {y: .nan}}}]\nlag:", 8, "a value cannot be kept as JSON"),
        (
            "lag:",
            "notify: [{call: a.b, arguments: {url: 'https://hooks.slack.com/services/T0/B0/abc'}}]\nlag:",
            8,
            "notify.0.arguments: The argument 'url' looks like a secret",
        ),
        ("lag:", "notify: [{call: nothing}]\nlag:", 8, "notify.0.call: String should match pattern"),
        ('"2.1.0"', '"2 [x]"', 3, "version: '2 [x]' cannot be a release's version"),
        ("soak: 10m", "soak: 99999d", 7, "upgrade.soak: Input should be less than or equal to 315360000."),
        ("name: orders", "name: [orders", 2, "this is not YAML"),
        (
            "lease_seconds: 20",
            "lease_seconds: 1",
            7,
            "upgrade.lease_seconds: Input should be greater than or equal to 5.",
        ),
        (
            "lease_seconds: 20",
            "take_back_seconds: 0",
            7,
            "upgrade.take_back_seconds: Input should be greater than or equal to 1.",
        ),
        (
            "lease_seconds: 20",
            "lease_seconds: 20, pause_seconds: 13m",
            7,
            "upgrade: four lease_seconds and pause_seconds are 860 s together: make them at most 840 s",
        ),
        ("max_seconds: 60", "verdicts: [SLOW]", 8, "lag.verdicts.0: Input should be 'OK', 'WARN', 'STOP'"),
        ("max_seconds: 60", "alarms: [PAUSE]", 8, "lag.alarms.0: Input should be 'COMMIT_AGE', 'RETENTION'"),
        ("max_seconds: 60", "transaction: soon", 8, "lag.transaction: is not a duration"),
    ],
)
def test_an_error_names_file_line_and_field(write: Write, old: str, new: str, line: int, sentence: str) -> None:
    assert old in GOOD
    path = write(GOOD.replace(old, new))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}, line {line}")
    assert sentence in str(caught.value)
    assert caught.value.fields["file"] == str(path)


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words"])
def test_a_file_that_is_no_mapping_is_refused(write: Write, text: str) -> None:
    with pytest.raises(SpecError, match="a stream is a mapping of fields"):
        load_spec(write(text))


@pytest.mark.parametrize(
    "extra",
    [
        "conf: {spark.my.password: hunter2}",
        "conf: {spark.driver.extraJavaOptions: -Djavax.net.ssl.keyStorePassword=hunter2}",
        "arguments: [--kafka-password=hunter2]",
        "arguments: ['password=hunter2']",
        "environment: {AWS_SECRET_ACCESS_KEY: hunter2}",
        "environment: {DB: 'postgresql://u:hunter2@db/x'}",
        "password: hunter2",
        "conf: {spark.a: [password, hunter2]}",
        "conf: [password, hunter2\n",
    ],
)
def test_no_error_shows_a_secret(write: Write, extra: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(GOOD + extra))
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in f"{error} {error.args} {getattr(error, 'fields', '')}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_an_argument_that_takes_its_secret_from_the_next_word_is_refused(write: Write) -> None:
    with pytest.raises(SpecError, match="The argument '--token' looks like a secret"):
        load_spec(write(GOOD + "arguments: [--token, abc]\n"))


def test_in_python_numbers_and_truth_values_are_what_a_person_writes() -> None:
    written: dict[str, Any] = {
        "arguments": (5,),
        "conf": {"spark.cores.max": 2, "spark.ui.enabled": False},
        "environment": {"TRIES": 1.5},
    }
    spec = StreamSpec(
        name="orders",
        application="orders.py",
        version="1",
        cluster="spark_default",
        control="file:///streams",
        **written,
    )
    assert spec.arguments == ("5",)
    assert spec.conf == {"spark.cores.max": "2", "spark.ui.enabled": "false"}
    assert spec.environment == {"TRIES": "1.5"}


def test_innocent_arguments_pass(write: Write) -> None:
    spec = load_spec(write(GOOD + "arguments: [--max-tokens, 5, --topic, passwords-changed, --tokenizer, x]\n"))
    assert len(spec.arguments) == 6

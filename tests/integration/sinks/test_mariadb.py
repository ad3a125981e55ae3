"""What only MariaDB has: engines without transactions, second unique indexes, URLs, texts that compare loosely."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from airflow_stream_provider.sinks import BadRows, SinkError, mariadb
from airflow_stream_provider.sinks.ledger import Batch, Target, Writer
from airflow_stream_provider.sinks.sql_database import SqlDatabase
from airflow_stream_provider.sinks.sql_ledger import SqlLedger
from devstack.mariadb import MariaDBServer
from devstack.processes import Processes
from tests.support.rows_in_hand import Rows, copied
from tests.support.sql_places import SqlPlace

pytestmark = pytest.mark.system
SCHEMA = StructType([StructField("id", StringType()), StructField("mail", StringType())])


@pytest.fixture(autouse=True)
def in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqlDatabase, "copy", copied)


def write(
    place: SqlPlace, *batches: Rows, key: tuple[str, ...] = ("id",), delete: str = "", create: bool = False
) -> None:
    ledger: Any = SqlLedger(place.database, Writer("orders", "daily", "a test"), Target("orders", key, delete, create))
    ledger.claim()
    try:
        for rows in batches:
            known = ledger.entry()
            number = known.batch_id + 1
            ledger.write(rows, Batch("q", number, known.offsets or [None], [number]))
    finally:
        ledger.close()


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_a_table_without_transactions_is_refused(maria: SqlPlace, engine: str) -> None:
    maria.run(f"create table orders (id varchar(9) primary key, mail varchar(9)) engine={engine}")
    with pytest.raises(BadRows, match=f"it is of {engine}, and only InnoDB writes rows and offsets together"):
        write(maria, Rows(SCHEMA, ["1\ta"]))
    assert maria.run("select count(*) from orders") == [(0,)]


def test_a_view_is_refused(maria: SqlPlace) -> None:
    maria.run("create view orders as select '1' as id, 'a' as mail")
    with pytest.raises(BadRows, match="it is of VIEW"):
        write(maria, Rows(SCHEMA, ["1\ta"]))


def test_a_row_does_not_replace_the_row_of_another_key_by_a_second_unique_index(maria: SqlPlace) -> None:
    maria.run("create table orders (id varchar(9) primary key, mail varchar(9) unique) engine=InnoDB")
    write(maria, Rows(SCHEMA, ["1\ta", "2\tb"]), Rows(SCHEMA, ["1\tc", "3\ta"]))
    expected = [("1", "c"), ("2", "b"), ("3", "a")]
    assert maria.run("select id, mail from orders order by id") == expected
    with pytest.raises(BadRows, match=r"Duplicate entry for key 'mail' \(1062\)") as found:
        write(maria, Rows(SCHEMA, ["4\tb"]))
    assert "'b'" not in str(found.value)
    assert maria.run("select id, mail from orders order by id") == expected


def test_the_beginning_of_a_text_is_no_key(maria: SqlPlace) -> None:
    maria.run("create table orders (id varchar(99), mail varchar(9), unique (id(5))) engine=InnoDB")
    with pytest.raises(BadRows, match=r"no unique index on \(id\)"):
        write(maria, Rows(SCHEMA, ["1\ta"]))


def test_a_zero_is_no_number_that_the_server_makes(maria: SqlPlace) -> None:
    maria.run("create table orders (id bigint primary key auto_increment, mail varchar(9)) engine=InnoDB")
    schema = StructType([StructField("id", LongType()), StructField("mail", StringType())])
    write(maria, Rows(schema, ["0\ta", "7\tb"]))
    assert maria.run("select id, mail from orders order by id") == [(0, "a"), (7, "b")]


@pytest.mark.parametrize("of", ["timestamp(6) not null", "bigint not null auto_increment unique"])
def test_a_null_is_no_value_that_the_server_makes(maria: SqlPlace, of: str) -> None:
    maria.run(f"create table orders (id varchar(9) primary key, at {of}) engine=InnoDB")
    kind = TimestampType() if of.startswith("timestamp") else LongType()
    schema = StructType([StructField("id", StringType()), StructField("at", kind), StructField("gone", BooleanType())])
    with pytest.raises(BadRows, match="CONSTRAINT `at may not be null` failed"):
        write(maria, Rows(schema, ["1\t\\N\t0"]), delete="gone")
    assert maria.run("select count(*) from orders") == [(0,)]
    write(maria, Rows(schema, ["1\t5\t0", "2\t6\t0"]), Rows(schema, ["2\t\\N\t1"]), delete="gone")
    assert maria.run("select id from orders") == [("1",)]


def test_keys_are_the_same_where_the_columns_collation_says_so(maria: SqlPlace) -> None:
    maria.run(
        "create table orders (id varchar(9) collate utf8mb4_general_ci primary key, mail varchar(9)) engine=InnoDB"
    )
    with pytest.raises(BadRows, match="Several rows of the batch have the same key"):
        write(maria, Rows(SCHEMA, ["a\t1", "A\t2"]))
    write(maria, Rows(SCHEMA, ["a\t1"]), Rows(SCHEMA, ["A\t2"]))
    assert maria.run("select mail from orders") == [("2",)]


def test_keys_of_a_table_that_the_sink_makes_are_exact(maria: SqlPlace) -> None:
    lines = ["a\t1", "A\t2", "a \t3", "\t4", "\x00\x1a\t5"]
    write(maria, Rows(SCHEMA, lines), Rows(SCHEMA, lines), create=True)
    assert maria.run("select count(*) from orders") == [(5,)]
    (binary,) = (StructType([StructField("id", BinaryType()), StructField("n", LongType())]),)
    maria.run("drop table orders")
    write(maria, Rows(binary, ["00\t1", "0000\t2"]), create=True)
    assert maria.run("select id from orders order by n") == [(b"\0",), (b"\0\0",)]


def test_a_row_larger_than_a_packet_is_refused(maria: SqlPlace) -> None:
    (most,) = maria.run("select @@max_allowed_packet")[0]
    with pytest.raises(BadRows, match="a row is larger than max_allowed_packet"):
        write(maria, Rows(SCHEMA, ["1\t" + "x" * most]), key=(), create=True)
    assert maria.run("select count(*) from orders") == [(0,)]


def test_a_user_without_the_right_to_see_other_sessions_is_told_that_one_writes(maria: SqlPlace) -> None:
    first = SqlLedger(maria.database, Writer("orders", "daily", "the first"), Target("orders"))
    first.claim()
    (name,) = maria.run("select database()")[0]
    maria.run("create user few@'127.0.0.1' identified by 'secret'")
    maria.run(f"grant select, insert, update, delete, create, drop on {name}.* to few@'127.0.0.1'")
    few = SqlPlace("mariadb", maria.address.replace("stream:", "few:"))
    with pytest.raises(SinkError, match="the first on a machine that this user may not see writes orders/daily since"):
        SqlLedger(few.database, Writer("orders", "daily", "the second"), Target("orders")).claim()
    first.close()


@pytest.mark.parametrize(
    "given",
    ["", "secret", "postgres://u:secret@h/d", "mysql://u:secret@h", "mysql://:secret@h/d", "mysql://u:secret@h:port/d"],
)
def test_what_is_no_url_is_refused_without_being_shown(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_SINK_ORDERS_DB", given)
    with pytest.raises(SinkError, match="has no address of the form mysql://") as found:
        mariadb("orders_db")
    assert "secret" not in str(found.value)


def test_a_url_from_a_file_with_a_password_of_any_characters_works(
    maria: SqlPlace, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    maria.run("create user odd@'127.0.0.1' identified by ?".replace("?", "%s"), ("p@ss:/?#%",))
    (name,) = maria.run("select database()")[0]
    maria.run(f"grant all on {name}.* to odd@'127.0.0.1'")
    (tmp_path / "url").write_text(maria.address.replace("stream:secret", "odd:p%40ss%3A%2F%3F%23%25") + "\n")
    monkeypatch.delenv("STREAM_SINK_ORDERS_DB", raising=False)
    monkeypatch.setenv("STREAM_SINK_ORDERS_DB_FILE", os.fspath(tmp_path / "url"))
    found = mariadb("orders_db")
    found.connect("test").close()
    assert repr(found) == "mariadb('orders_db')"


def certificates(folder: Path, name: str) -> Path:
    """Write an authority, and a key and a certificate of it for the loopback address; return the authority's file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
    made = made.not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / f"{name}.key").write_bytes(secret)
    return folder / f"{name}.pem"


@pytest.mark.usefixtures("mariadb_server")
def test_a_session_is_encrypted_and_the_server_has_to_show_who_it_is(processes: Processes, tmp_path: Path) -> None:
    ours, other = certificates(tmp_path, "ours"), certificates(tmp_path, "other")
    server = MariaDBServer(
        tmp_path / "server", processes, {"ssl-cert": str(ours), "ssl-key": str(ours.with_suffix(".key"))}
    )
    server.start()
    there = SqlPlace("mariadb", f"{server.url()}?ssl_ca={ours}")
    ((_, cipher),) = there.run("show session status like 'ssl_cipher'")
    assert cipher
    with pytest.raises(SinkError, match="cannot be reached"):
        SqlPlace("mariadb", f"{server.url()}?ssl_ca={other}").run("select 1")
    with pytest.raises(SinkError, match=r"The one option is \?ssl_ca=FILE"):
        SqlPlace("mariadb", f"{server.url()}?ssl=1").run("select 1")

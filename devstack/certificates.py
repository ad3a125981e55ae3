"""Make the TLS certificates of brokers and clients of the tests."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from devstack.ports import HOST


class Certificates:
    """Certificates as PEM files: an authority, a broker and a client signed by it, and an unknown authority.

    :param folder: folder for the files.
    """

    def __init__(self, folder: Path) -> None:
        key, certificate = _authority("us")
        self.authority = folder / "authority.pem"
        self.unknown_authority = folder / "unknown-authority.pem"
        self.broker = folder / "broker.pem"
        self.client = folder / "client.pem"
        self.client_key = folder / "client-key.pem"
        self.key_password = "key-hunter2"
        self.authority.write_bytes(_pem(certificate))
        self.unknown_authority.write_bytes(_pem(_authority("them")[1]))
        broker_key, broker = _signed("broker", key, certificate)
        self.broker.write_bytes(_pem_key(broker_key) + _pem(broker) + _pem(certificate))
        client_key, client = _signed("client", key, certificate)
        self.client.write_bytes(_pem(client))
        self.client_key.write_bytes(_pem_key(client_key, self.key_password))


def _authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(*(use in (5, 6) for use in range(9)))
    builder = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return key, builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())


def _signed(
    name: str, authority_key: ec.EllipticCurvePrivateKey, authority: x509.Certificate
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    builder = _builder(name, str(issuer), key).add_extension(address, critical=False)
    return key, builder.sign(authority_key, hashes.SHA256())


def _builder(name: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey, password: str = "") -> bytes:
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

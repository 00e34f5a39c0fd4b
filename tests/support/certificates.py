"""Certificates for a test: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFE = datetime.timedelta(days=1)


def name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Ember"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


class Authority:
    def __init__(self, directory: Path, common_name: str = "the authority") -> None:
        self.directory = directory
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = name(common_name)
        now = datetime.datetime.now(datetime.UTC)
        self.certificate = (
            self.builder(self.name, self.key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.file = directory / f"{common_name.replace(' ', '-')}.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - LIFE)
            .not_valid_after(now + LIFE)
        )

    def issue(self, common_name: str, file: str = "", password: bytes = b"", expired: bool = False) -> Path:
        """A PEM file with certificate and key; for 127.0.0.1 and, as an alternative name, the name itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.RFC822Name(f"{common_name}@example.org"),
        ]
        now = datetime.datetime.now(datetime.UTC) - (3 * LIFE if expired else LIFE * 0)
        certificate = (
            self.builder(name(common_name), key.public_key(), now)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        secret: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            secret = serialization.BestAvailableEncryption(password)
        path = self.directory / (file or f"{common_name}.pem")
        path.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
        )
        return path

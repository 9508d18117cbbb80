"""Certificates of an authority of our own, in files."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """An authority that signs certificates into files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = self._write(name, self._sign(self._name, self._key), None)

    def issue(self, name: str, hosts: Iterable[str] = ()) -> tuple[Path, Path]:
        """Return the files of a certificate for 127.0.0.1 and these hosts, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._write(name, self._sign(subject, key, hosts), None)
        return certificate, self._write(f"{name}-key", None, key)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, hosts: Iterable[str] | None = None
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        names += map(x509.DNSName, hosts or ())
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(hosts is None, None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(signer, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _write(
        self, name: str, certificate: x509.Certificate | None, key: ec.EllipticCurvePrivateKey | None
    ) -> Path:
        path = self.folder / f"{name}.pem"
        pem = serialization.Encoding.PEM
        if certificate is not None:
            path.write_bytes(certificate.public_bytes(pem))
        if key is not None:
            plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            path.write_bytes(key.private_bytes(pem, *plain))
        return path

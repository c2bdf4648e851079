"""A certificate authority of the operator's own, for `barnabas up --secure`: one that no other machine need know.

Keys are elliptic (P-256), certificates X.509 v3 as RFC 5280 wants them. Needs the package cryptography.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from barnabas.errors import ConfigError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise ConfigError("certificates are made with the package cryptography: pip install 'barnabas[tls]'") from None

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_LIFETIME = timedelta(days=3650)
CERTIFICATE_LIFETIME = timedelta(days=397)
#: A certificate that has less left is made anew at the next start.
RENEWED_BEFORE = timedelta(days=90)
#: Clocks of clients may be behind by so much.
_CLOCK_SKEW = timedelta(hours=1)


class CertificateAuthority:
    """Issues certificates; `certificate` is what clients have to trust, in PEM."""

    def __init__(self, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def make(cls, now: datetime) -> CertificateAuthority:
        """Make a new one, with a key of its own; its name holds a random number, so that two are told apart."""
        key = ec.generate_private_key(ec.SECP256R1())
        serial = x509.random_serial_number()
        name = _name(f"barnabas authority {serial:040x}"[:50])
        builder = _begun(name, name, key, serial, now, AUTHORITY_LIFETIME)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, key: bytes, certificate: bytes) -> CertificateAuthority:
        """Return the one that `key_pem` and `certificate_pem` gave. Raises ValueError for what is none."""
        loaded = serialization.load_pem_private_key(key, None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError("the key of the authority is not elliptic")
        return cls(loaded, x509.load_pem_x509_certificate(certificate))

    @property
    def certificate_pem(self) -> bytes:
        """Its certificate, for clients."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """Its private key, which makes whom it likes a broker."""
        return _key_pem(self._key)

    def issue(self, names: Sequence[str], now: datetime, *, is_client: bool = False) -> bytes:
        """Return a new private key and a certificate of a server with these hosts and addresses, in PEM.

        With `is_client` it is good for connections to other servers, too.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(names[0][:64])
        builder = _begun(
            subject, self._certificate.subject, key, x509.random_serial_number(), now, CERTIFICATE_LIFETIME
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if is_client else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_general_name, names))), critical=False)
        of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(of_issuer, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return _key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)

    def is_current(self, issued: bytes, names: Sequence[str], now: datetime) -> bool:
        """Whether what `issue` gave is of this authority, has all these names, and is valid for some time yet."""
        try:
            certificate = x509.load_pem_x509_certificate(issued)
            certificate.verify_directly_issued_by(self._certificate)
            there = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except Exception:  # noqa: BLE001 - a file that was spoilt, in any way, is made anew
            return False
        is_named = set(map(_general_name, names)) <= set(there)
        return is_named and now + RENEWED_BEFORE < certificate.not_valid_after_utc


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    serial: int,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), serial, now - _CLOCK_SKEW, now + lifetime)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())

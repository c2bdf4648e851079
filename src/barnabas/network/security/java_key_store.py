"""Reads JKS, Java's own key stores, as keytool of Java 8 made them by default; later ones make PKCS12.

Source: sun.security.provider.JavaKeyStore and KeyProtector, as their format is documented: big-endian numbers, DER for
certificates and keys, SHA-1 for the integrity of the file and as the key stream over private keys.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import textwrap
from typing import NamedTuple

from barnabas.network.security.der import OCTET_STRING, parse

JKS, JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_PRIVATE_KEY, _TRUSTED_CERTIFICATE = 1, 2
_DIGEST_BYTES = 20
_SALT_BYTES = 20
#: What Java mixes into the digest of the file.
_WHITENER = b"Mighty Aphrodite"
_MOST_ENTRIES = 100_000


class JavaKeyStore(NamedTuple):
    """The first private key with its certificates, and the trusted certificates; all PEM, "" where there is none."""

    key: str
    chain: str
    trusted: str


def read_java_key_store(data: bytes, password: str | None, key_password: str | None) -> JavaKeyStore:
    """Return what a JKS file holds. Without a password its integrity is not checked, and it gives no private key.

    Raises ValueError, which shows no secret, when a password is wrong or the file cannot be read.
    """
    if not data.startswith(JKS) or len(data) < 12 + _DIGEST_BYTES:
        raise ValueError("it is no JKS file")
    content = data[:-_DIGEST_BYTES]
    if password is not None:
        digest = hashlib.sha1(_utf16(password) + _WHITENER + content).digest()  # noqa: S324 - the format's own
        if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
            raise ValueError("its password is wrong, or the file was changed")
    reader = _Reader(content, 4)
    version, count = reader.number(4), reader.number(4)
    if version not in (1, 2) or count > _MOST_ENTRIES:
        raise ValueError("it is no JKS file of version 1 or 2")
    key, chain, trusted = "", "", ""
    for _ in range(count):
        kind = reader.number(4)
        reader.block(2)  # the alias
        reader.number(8)  # when it was made
        if kind == _PRIVATE_KEY:
            protected = reader.block(4)
            certificates = "".join(_certificate(reader, version) for _ in range(reader.number(4)))
            secret = key_password if key_password is not None else password
            if not key and secret is not None:
                key, chain = _pem("PRIVATE KEY", _unprotected(protected, secret)), certificates
        elif kind == _TRUSTED_CERTIFICATE:
            trusted += _certificate(reader, version)
        else:
            raise ValueError(f"it has an entry of kind {kind}, which JKS does not know")
    return JavaKeyStore(key, chain, trusted)


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def read(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._data):
            raise ValueError("it is cut")
        found, self._position = self._data[self._position : end], end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.read(size), "big")

    def block(self, size_of_length: int) -> bytes:
        return self.read(self.number(size_of_length))


def _certificate(reader: _Reader, version: int) -> str:
    kind = reader.block(2) if version == 2 else b"X.509"
    content = reader.block(4)
    if kind != b"X.509":
        raise ValueError(f"it has a certificate of type {kind[:20]!r}; X.509 is known")
    return _pem("CERTIFICATE", content)


def _unprotected(protected: bytes, password: str) -> bytes:
    """KeyProtector.recover: the key, under a stream of SHA-1 digests of the password and a salt."""
    found = [element for element in parse(protected).elements() if element.tag == OCTET_STRING]
    if not found or len(found[0].content) <= _SALT_BYTES + _DIGEST_BYTES:
        raise ValueError("its private key cannot be read")
    content, secret = found[0].content, _utf16(password)
    salt, hidden, check = content[:_SALT_BYTES], content[_SALT_BYTES:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    stream, digest = b"", salt
    while len(stream) < len(hidden):
        digest = hashlib.sha1(secret + digest).digest()  # noqa: S324 - the format's own
        stream += digest
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    expected = hashlib.sha1(secret + key).digest()  # noqa: S324 - the format's own
    if not hmac.compare_digest(expected, check):
        raise ValueError("the password of its private key is wrong")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _pem(kind: str, content: bytes) -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 64))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n"

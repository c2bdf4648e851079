"""The arithmetic of SCRAM-SHA-256 and SCRAM-SHA-512, and its messages, for both sides (RFC 5802, RFC 7677, KIP-84)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import NamedTuple

#: Mechanism → the hash function it is made of.
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: The size of salts that are made here; those that brokers give unknown users have it, too.
SALT_BYTES = 26
FEWEST_ITERATIONS = 4096
NO_CHANNEL_BINDING = b"n,,"
_ESCAPE = re.compile("=(2C|3D)?")
_UNESCAPED = {"2C": ",", "3D": "="}


class StoredCredential(NamedTuple):
    """What a broker keeps of a password: enough to check a proof, not to make one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"StoredCredential([hidden], iterations={self.iterations})"


def salted_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """RFC 5802, section 2.2: Hi(password, salt, iterations); some milliseconds of work."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def stored_credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> StoredCredential:
    """Return what is kept of a salted password (RFC 5802, section 3)."""
    return StoredCredential(
        salt, digest(mechanism, client_key(mechanism, salted)), server_key(mechanism, salted), iterations
    )


def client_key(mechanism: str, salted: bytes) -> bytes:
    """RFC 5802, section 3: ClientKey."""
    return hmac.digest(salted, b"Client Key", HASHES[mechanism])


def server_key(mechanism: str, salted: bytes) -> bytes:
    """RFC 5802, section 3: ServerKey."""
    return hmac.digest(salted, b"Server Key", HASHES[mechanism])


def signature(mechanism: str, key: bytes, message: bytes) -> bytes:
    """RFC 5802, section 3: ClientSignature with StoredKey, ServerSignature with ServerKey."""
    return hmac.digest(key, message, HASHES[mechanism])


def digest(mechanism: str, data: bytes) -> bytes:
    """RFC 5802, section 2.2: H."""
    return hashlib.new(HASHES[mechanism], data).digest()


def combined(first: bytes, second: bytes) -> bytes:
    """Return the exclusive or of two byte strings of the same length."""
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


def escaped(name: str) -> str:
    """Return a name as messages hold it: without `=` and `,`."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(text: str) -> str:
    """Return the name that a message holds. Raises ValueError for an escape that does not exist."""

    def letter(found: re.Match[str]) -> str:
        if found.group(1) is None:
            raise ValueError("a name has '=' that is neither =2C nor =3D")
        return _UNESCAPED[found.group(1)]

    return _ESCAPE.sub(letter, text)


def fields(message: bytes) -> dict[str, str]:
    """Return the attributes of a message, of each the first. Raises ValueError when it is not UTF-8."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    return {part[0]: part[2:] for part in reversed(parts) if part[1:2] == "="}


def from_base64(text: str) -> bytes:
    """Return what base64 stands for. Raises ValueError when it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64") from None


def to_base64(data: bytes) -> str:
    """Return base64 as messages hold it."""
    return base64.b64encode(data).decode()

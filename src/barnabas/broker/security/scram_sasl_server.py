"""SCRAM-SHA-256 and SCRAM-SHA-512: a broker knows what to check a password by, not the password.

Source: RFC 5802 (SCRAM), RFC 7677 (SHA-256), KIP-84 and KIP-48 (the extension `tokenauth` for delegation tokens).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.security.sasl_server import Identity
from barnabas.errors import SaslAuthenticationError
from barnabas.network.security import scram
from barnabas.network.security.scram import FEWEST_ITERATIONS, StoredCredential

_FIRST = re.compile(
    rb"(?P<header>[ny],(?:a=(?P<authzid>[^,]*))?,)"
    rb"(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[a-zA-Z]+=[^,]*)*))",
    re.DOTALL,
)
_FINAL = re.compile(
    rb"(?P<unproved>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[a-zA-Z]=[^,]*)*)"
    rb",p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)


class ScramUser(NamedTuple):
    """A credential, and who has authenticated by it."""

    credential: StoredCredential
    identity: Identity


#: Name and whether it is a delegation token's id → its credential; None where there is none.
FindUser = Callable[[str, bool], ScramUser | None]


class ScramSaslServer:
    """One exchange. `nonce` is fresh random text without commas; `pepper` a secret of this broker's.

    Whether there is such a user shows in nothing: one that does not exist gets a salt, too, always the same, and fails
    where a wrong password does.
    """

    def __init__(self, mechanism: str, find_user: FindUser, nonce: str, pepper: bytes) -> None:
        self._mechanism = mechanism
        self._find_user = find_user
        self._nonce = nonce
        self._pepper = pepper
        self._header = b""
        self._messages = b""
        self._user: ScramUser | None = None
        self._credential: StoredCredential | None = None
        self.identity: Identity | None = None

    def evaluate(self, response: bytes, now_ms: int) -> bytes:
        """See `SaslServer`: client-first-message, then client-final-message."""
        if self._credential is None:
            return self._begin(response, now_ms)
        return self._finish(response, self._credential)

    def _begin(self, response: bytes, now_ms: int) -> bytes:
        found = _FIRST.fullmatch(response)
        if found is None:
            raise self._failed()
        try:
            name = scram.unescaped(found["name"].decode())
            authorization_id = scram.unescaped((found["authzid"] or b"").decode())
        except ValueError:
            raise self._failed() from None
        if authorization_id not in ("", name):
            raise SaslAuthenticationError(
                "Authentication failed: Client specified an authorization id that is different from username"
            )
        is_token = b",tokenauth=true" in found["extensions"].lower()
        self._user = self._find_user(name, is_token)
        if self._user is not None and (self._user.identity.lifetime_ms or now_ms) < now_ms:
            # A delegation token that has expired and is still there.
            self._user = None
        # Made for all, so that it takes as long to say that there is no such user.
        imitation = self._imitation(name)
        self._credential = imitation if self._user is None else self._user.credential
        self._header = found["header"]
        self._nonce = found["nonce"].decode() + self._nonce
        salt, iterations = scram.to_base64(self._credential.salt), self._credential.iterations
        challenge = f"r={self._nonce},s={salt},i={iterations}".encode()
        self._messages = found["bare"] + b"," + challenge + b","
        return challenge

    def _finish(self, response: bytes, credential: StoredCredential) -> bytes:
        found = _FINAL.fullmatch(response)
        if found is None:
            raise self._failed()
        try:
            binding, proof = (scram.from_base64(found[name].decode()) for name in ("binding", "proof"))
        except ValueError:
            raise self._failed() from None
        # RFC 5802, section 5.1: the header as it was sent, and the whole nonce.
        if binding != self._header or not hmac.compare_digest(found["nonce"].decode(), self._nonce):
            raise self._failed()
        message = self._messages + found["unproved"]
        signature = scram.signature(self._mechanism, credential.stored_key, message)
        if len(proof) != len(signature):
            raise self._failed()
        stored_key = scram.digest(self._mechanism, scram.combined(proof, signature))
        if not hmac.compare_digest(stored_key, credential.stored_key) or self._user is None:
            raise self._failed()
        self.identity = self._user.identity
        return b"v=" + scram.to_base64(scram.signature(self._mechanism, credential.server_key, message)).encode()

    def _imitation(self, name: str) -> StoredCredential:
        salt = hmac.digest(self._pepper, name.encode(), hashlib.sha256)[: scram.SALT_BYTES]
        size = hashlib.new(scram.HASHES[self._mechanism]).digest_size
        return StoredCredential(salt, bytes(size), bytes(size), FEWEST_ITERATIONS)

    def _failed(self) -> SaslAuthenticationError:
        return SaslAuthenticationError(
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )

"""SCRAM-SHA-256 and SCRAM-SHA-512: the password never travels, and the broker proves that it knows it too.

Source: RFC 5802 (SCRAM), RFC 7677 (SHA-256), KIP-84 and KIP-48 (the extension `tokenauth` for delegation tokens).
"""

from __future__ import annotations

import hmac

from barnabas.errors import ConfigError, SaslAuthenticationError
from barnabas.network.security import scram
from barnabas.network.security.sasl_client import Work
from barnabas.network.security.scram import FEWEST_ITERATIONS, NO_CHANNEL_BINDING

# What Kafka's own tools allow is 16384; a million take a second. Without a bound a false broker could name any number.
_MOST_ITERATIONS = 1_000_000


class ScramSaslClient:
    """One SCRAM exchange. `nonce` is fresh random text without commas; `is_token`: these are a delegation token's.

    Hashing the password some thousand times is `Work`.
    """

    def __init__(self, mechanism: str, username: str, password: str, nonce: str, *, is_token: bool = False) -> None:
        if mechanism not in scram.HASHES:
            raise ConfigError(f"{mechanism!r} is not a SCRAM mechanism; there are {' and '.join(scram.HASHES)}")
        self.mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce
        self._first = f"n={scram.escaped(username)},r={nonce}{',tokenauth=true' if is_token else ''}".encode()
        self._server_signature: bytes | None = None
        self._is_proof_sent = False
        self.is_complete = False

    def initial_response(self) -> bytes:
        """See `SaslClient`: client-first-message."""
        return NO_CHANNEL_BINDING + self._first

    def evaluate_challenge(self, challenge: bytes) -> Work | None:
        """See `SaslClient`: server-first-message, then server-final-message."""
        fields = _fields(challenge)
        if not self._is_proof_sent:
            self._is_proof_sent = True
            return self._prove(challenge, fields)
        if "e" in fields:
            raise SaslAuthenticationError(f"the broker refused the SCRAM proof: {fields['e']}")
        if self._server_signature is None or not hmac.compare_digest(
            _decode(fields.get("v", ""), "signature"), self._server_signature
        ):
            raise SaslAuthenticationError(
                "the broker's SCRAM signature is wrong: it does not know this user's password, so it is not the broker "
                "that it should be"
            )
        self.is_complete = True
        return None

    def _prove(self, challenge: bytes, fields: dict[str, str]) -> Work:
        """RFC 5802, section 5.1: the mandatory extension `m` is not known here; the nonce must extend ours."""
        if "m" in fields:
            raise SaslAuthenticationError("the broker demands a SCRAM extension that does not exist")
        if "e" in fields:
            raise SaslAuthenticationError(f"the broker refused the SCRAM exchange: {fields['e']}")
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslAuthenticationError("the broker's SCRAM nonce does not extend the client's: somebody interferes")
        salt = _decode(fields.get("s", ""), "salt")
        count = fields.get("i", "")
        iterations = int(count) if count.isascii() and count.isdigit() and len(count) < 10 else 0
        if not salt or not FEWEST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
            raise SaslAuthenticationError(
                f"the broker asks for {count[:20]!r} SCRAM iterations with a salt of {len(salt)} bytes; "
                f"{FEWEST_ITERATIONS} to {_MOST_ITERATIONS} with a salt are accepted"
            )
        without_proof = f"c={scram.to_base64(NO_CHANNEL_BINDING)},r={nonce}".encode()
        message = b",".join([self._first, challenge, without_proof])
        return Work(lambda: without_proof + b",p=" + self._proof(salt, iterations, message))

    def _proof(self, salt: bytes, iterations: int, message: bytes) -> bytes:
        """RFC 5802, section 3: SaltedPassword, ClientKey, StoredKey, ClientSignature, ServerSignature."""
        salted = scram.salted_password(self.mechanism, self._password, salt, iterations)
        client_key = scram.client_key(self.mechanism, salted)
        signature = scram.signature(self.mechanism, scram.digest(self.mechanism, client_key), message)
        self._server_signature = scram.signature(self.mechanism, scram.server_key(self.mechanism, salted), message)
        return scram.to_base64(scram.combined(client_key, signature)).encode()


def _fields(message: bytes) -> dict[str, str]:
    try:
        return scram.fields(message)
    except ValueError as problem:
        raise SaslAuthenticationError(f"the broker's SCRAM message cannot be read: {problem}") from None


def _decode(text: str, what: str) -> bytes:
    try:
        return scram.from_base64(text)
    except ValueError:
        raise SaslAuthenticationError(f"the broker's SCRAM {what} is not base64") from None

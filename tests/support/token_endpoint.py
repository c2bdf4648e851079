"""An OAuth token endpoint on a local port: it checks secrets and assertions with PyJWT, and signs the tokens it gives.

What it signs, whoever has its `jwks` can verify, such as an Apache Kafka (tests/peers/secure_kafka.py).
"""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

ISSUER, AUDIENCE, KEY_ID = "https://idp.example.org", "kafka", "k1"
CLIENT_ID, CLIENT_SECRET = "bot", "a $ecret: of the bot"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def rsa_key() -> rsa.RSAPrivateKey:
    """A new key for RS256."""
    return rsa.generate_private_key(65537, 2048)


def ec_key() -> ec.EllipticCurvePrivateKey:
    """A new key for ES256."""
    return ec.generate_private_key(ec.SECP256R1())


def pem(key: PrivateKey, passphrase: str | None = None, *, is_pkcs8: bool = True) -> str:
    """A private key as its owner keeps it."""
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        encryption = BestAvailableEncryption(passphrase.encode())
    form = PrivateFormat.PKCS8 if is_pkcs8 else PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(Encoding.PEM, form, encryption).decode()


class RefusedError(Exception):
    """The status and `error` of an answer that holds no token."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(description)
        self.status, self.error = status, error


class TokenEndpoint:
    """What it knows, and what it was asked: the forms and the headers, in order.

    `first_answers` are statuses to give before anything else. Assertions must be of `trusted` (algorithm to public
    key) and for `url`; a description of what is wrong with one repeats it, as careless endpoints do.
    """

    def __init__(self, signing_key: rsa.RSAPrivateKey, trusted: Mapping[str, PrivateKey]) -> None:
        self.url = ""
        self.forms: list[dict[str, str]] = []
        self.headers: list[Mapping[str, str]] = []
        self.first_answers: list[int] = []
        self.lifetime = 3600
        self._trusted = {name: key.public_key() for name, key in trusted.items()}
        self._signing_key = signing_key
        self._ids: set[str] = set()

    @property
    def jwks(self) -> dict[str, Any]:
        """Its public key, as RFC 7517 writes it."""
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._signing_key.public_key()))
        return {"keys": [{**key, "kid": KEY_ID, "use": "sig", "alg": "RS256"}]}

    def token(self, subject: str, **claims: Any) -> str:
        """A signed token; claims of None are left out."""
        now = int(time.time())
        found = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + self.lifetime, **claims}
        return jwt.encode(
            {name: value for name, value in found.items() if value is not None},
            self._signing_key,
            "RS256",
            {"kid": KEY_ID},
        )

    def answer(self, form: dict[str, str], headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Status and body for a request."""
        self.forms.append(form)
        self.headers.append(headers)
        if self.first_answers:
            return self.first_answers.pop(0), {}
        try:
            subject = self._subject(form, headers)
        except RefusedError as refusal:
            return refusal.status, {"error": refusal.error, "error_description": str(refusal)}
        return 200, {"access_token": self.token(subject, scope=form.get("scope")), "token_type": "Bearer"}

    def _subject(self, form: dict[str, str], headers: Mapping[str, str]) -> str:
        if form.get("grant_type") == JWT_BEARER:
            return self._asserted(form["assertion"], "invalid_grant")
        if form.get("grant_type") != "client_credentials":
            raise RefusedError(400, "unsupported_grant_type", "none of mine")
        if form.get("client_assertion_type") == CLIENT_ASSERTION:
            subject = self._asserted(form["client_assertion"], "invalid_client")
            if form.get("client_id", subject) != subject:
                raise RefusedError(401, "invalid_client", "the assertion is of another client")
            return subject
        wanted = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if headers.get("Authorization") != f"Basic {wanted}":
            raise RefusedError(401, "invalid_client", f"not {headers.get('Authorization')}")
        return CLIENT_ID

    def _asserted(self, assertion: str, error: str) -> str:
        try:
            algorithm = jwt.get_unverified_header(assertion)["alg"]
            claims = jwt.decode(
                assertion,
                self._trusted[algorithm],
                [algorithm],
                audience=self.url,
                options={"require": ["iss", "sub", "aud", "exp", "iat", "nbf"]},
            )
            if claims.get("jti") in self._ids:
                raise RefusedError(400, error, "the assertion was used before")
            self._ids |= {claims["jti"]} if "jti" in claims else set()
        except (jwt.PyJWTError, KeyError) as problem:
            raise RefusedError(400, error, f"{problem} in {assertion}") from None
        subject: str = claims["sub"]
        return subject


@contextmanager
def serving(endpoint: TokenEndpoint, context: ssl.SSLContext | None = None) -> Iterator[TokenEndpoint]:
    """The endpoint on a port of its own, its `url` set; with TLS where there is a context."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = dict(urllib.parse.parse_qsl(text, strict_parsing=True))
            status, body = endpoint.answer(form, self.headers)
            try:
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{endpoint.url}/elsewhere")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())
            except ConnectionError:
                self.close_connection = True  # who asked has given up

        def log_message(self, format: str, *args: Any) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        scheme, host = "http", "127.0.0.1"
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme, host = "https", "localhost"
        endpoint.url = f"{scheme}://{host}:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()

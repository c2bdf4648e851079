"""Assertions: JWTs by which a client shows a token endpoint who it is (RFC 7523; KIP-1139, KIP-1258)."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.config.config import Config
from barnabas.errors import ConfigError, KafkaError
from barnabas.network.security.cached_file import CachedFile
from barnabas.network.security.oauth_bearer_token import jwt_claims, serialized_jwt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

PREFIX = "sasl.oauthbearer.assertion."
_CURVE = "secp256r1"


class AssertionCreator(Protocol):
    """Where assertions come from; used by one thread at a time."""

    def create(self) -> str:
        """Return an assertion to be sent now. Raises KafkaError: a file has changed and cannot be used."""

    def who(self, assertion: str) -> str:
        """Whose the assertion is, for messages, without the assertion."""


class FileAssertionCreator:
    """An assertion that another program makes and keeps fresh in a file."""

    def __init__(self, file: CachedFile[str], clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock

    def create(self) -> str:
        """See `AssertionCreator`."""
        return self._file.get()

    def who(self, assertion: str) -> str:
        """See `AssertionCreator`."""
        expiry = jwt_claims(assertion).get("exp")
        is_old = isinstance(expiry, (int, float)) and expiry <= self._clock()
        return f"the assertion in {self._file.origin}" + (", which has expired," if is_old else "")


class AssertionTemplate(NamedTuple):
    """Fields of the header and claims that every assertion has."""

    header: dict[str, Any]
    payload: dict[str, Any]


class DynamicClaims(NamedTuple):
    """How the claims about time are made, in seconds, and whether each assertion has an id of its own (`jti`)."""

    exp_seconds: int
    nbf_seconds: int
    includes_jti: bool

    def at(self, now: int, new_id: Callable[[], str]) -> dict[str, Any]:
        """Return the claims of an assertion that is made at `now`, in seconds since the epoch."""
        claims: dict[str, Any] = {"iat": now, "exp": now + self.exp_seconds, "nbf": now - self.nbf_seconds}
        return {**claims, "jti": new_id()} if self.includes_jti else claims


class DefaultAssertionCreator:
    """Makes and signs an assertion whenever one is needed.

    Of what is said twice, `dynamic` claims win over the template's and these over `static` ones, as in Kafka's
    LayeredAssertionJwtTemplate.
    """

    def __init__(
        self,
        algorithm: str,
        key: CachedFile[PrivateKeyTypes],
        static: Mapping[str, str],
        template: CachedFile[AssertionTemplate] | None,
        dynamic: DynamicClaims,
        *,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._algorithm = algorithm
        self._key = key
        self._static = dict(static)
        self._template = template
        self._dynamic = dynamic
        self._clock = clock
        self._new_id = new_id

    def create(self) -> str:
        """See `AssertionCreator`."""
        import jwt

        header, payload = AssertionTemplate({}, {}) if self._template is None else self._template.get()
        claims = {**self._static, **payload, **self._dynamic.at(int(self._clock()), self._new_id)}
        key: Any = self._key.get()
        try:
            return jwt.encode(claims, key, self._algorithm, {**header, "alg": self._algorithm, "typ": "JWT"})
        except (jwt.PyJWTError, TypeError, ValueError, RecursionError) as problem:
            raise KafkaError(f"no assertion can be made with {self._key.origin}: {problem}") from None

    def who(self, assertion: str) -> str:
        """See `AssertionCreator`."""
        return f"the assertion signed ({self._algorithm}) with {self._key.origin}"


def create_assertion_creator(config: Config) -> AssertionCreator:
    """Return what `sasl.oauthbearer.assertion.*` ask for: a file with an assertion, else a key to sign with.

    Raises `ConfigError` when a file is missing or cannot be used, or the package that signs is missing.

    """
    if config[f"{PREFIX}file"]:
        return FileAssertionCreator(_file(config, "file", serialized_jwt))
    if not config[f"{PREFIX}private.key.file"]:
        raise ConfigError(
            f"an assertion is needed: set {PREFIX}private.key.file to the key that signs it, or {PREFIX}file to a "
            "file that holds one"
        )
    _need_pyjwt()
    algorithm, passphrase = config.get_str(f"{PREFIX}algorithm"), _passphrase(config)
    static = {name: config[f"{PREFIX}claim.{name}"] for name in ("aud", "iss", "sub")}
    creator = DefaultAssertionCreator(
        algorithm,
        _file(config, "private.key.file", lambda text: private_key(text, passphrase, algorithm)),
        {name: value for name, value in static.items() if value},
        _file(config, "template.file", assertion_template) if config[f"{PREFIX}template.file"] else None,
        DynamicClaims(
            config.get_int(f"{PREFIX}claim.exp.seconds"),
            config.get_int(f"{PREFIX}claim.nbf.seconds"),
            config.get_bool(f"{PREFIX}claim.jti.include"),
        ),
    )
    try:
        creator.create()
    except KafkaError as problem:
        raise ConfigError(str(problem)) from None
    return creator


def _file(config: Config, name: str, transform: Callable[[str], Any]) -> CachedFile[Any]:
    setting = PREFIX + name
    return CachedFile(setting, config.get_str(setting), config.shown(setting), transform)


def _need_pyjwt() -> None:
    try:
        import cryptography.hazmat.primitives.serialization
        import jwt
    except ImportError:
        raise ConfigError(
            f"{PREFIX}private.key.file needs the packages PyJWT and cryptography: pip install 'barnabas[oauth]'"
        ) from None
    del cryptography, jwt


def _passphrase(config: Config) -> str | None:
    setting = f"{PREFIX}private.key.passphrase"
    if config[setting] is None:
        return None
    passphrase: str = config[setting].value.strip()
    if not passphrase:
        raise ConfigError(f"{setting} is empty; remove it where the key is not encrypted")
    return passphrase


def assertion_template(text: str) -> AssertionTemplate:
    """Return what a template file holds: a JSON object with objects called header and payload, both optional.

    Raises `ValueError` when it holds something else.

    """
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as problem:
        raise ValueError(f"it is not JSON: {problem.msg} in line {problem.lineno}, column {problem.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it must hold a JSON object with the objects 'header' and 'payload', or one of them")
    parts = {}
    for name in AssertionTemplate._fields:
        part = found.get(name)
        if part is not None and not isinstance(part, dict):
            raise ValueError(f"{name!r} in it must be a JSON object")
        parts[name] = part or {}
    return AssertionTemplate(**parts)


def _no_constant(name: str) -> Any:
    raise ValueError(f"it is not JSON: there is no {name} in it")


def private_key(text: str, passphrase: str | None, algorithm: str) -> PrivateKeyTypes:
    """Return the private key of a PEM file, or of PKCS#8 in base64 without PEM's lines, which Java reads too.

    Raises `ValueError` when there is none, the passphrase does not fit, or the key is not one of `algorithm`.

    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

    password = None if passphrase is None else passphrase.encode()
    try:
        if "-----BEGIN " in text:
            key = load_pem_private_key(text.encode(), password)
        else:
            key = load_der_private_key(base64.b64decode("".join(text.split()), validate=True), password)
    except TypeError:
        # Of a password that is missing or not needed.
        raise ValueError(
            f"it is encrypted; set {PREFIX}private.key.passphrase"
            if password is None
            else f"it is not encrypted; remove {PREFIX}private.key.passphrase"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(
            "it holds no private key that can be read"
            + ("" if password is None else f"; is {PREFIX}private.key.passphrase right?")
        ) from None
    _check_fits(key, algorithm)
    return key


def _check_fits(key: PrivateKeyTypes, algorithm: str) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    if algorithm == "RS256":
        fits, wanted = isinstance(key, RSAPrivateKey), "an RSA key"
    else:
        fits = isinstance(key, EllipticCurvePrivateKey) and key.curve.name == _CURVE
        wanted = "a key of the elliptic curve P-256"
    if not fits:
        raise ValueError(f"{PREFIX}algorithm={algorithm} needs {wanted}, and it holds another")

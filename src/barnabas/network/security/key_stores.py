"""Key stores and trust stores as PEM: from settings, PEM files (KIP-651), PKCS12 and JKS files."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from barnabas.config.config import Config
from barnabas.errors import ConfigError
from barnabas.network.security.java_key_store import JCEKS, JKS, read_java_key_store

_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_CERTIFICATE = "CERTIFICATE"
_DER_SEQUENCE = b"\x30"


class KeyStore(NamedTuple):
    """A private key and its certificate chain, both PEM, and the key's password."""

    key: str
    certificates: str
    password: str | None

    def __repr__(self) -> str:
        return "KeyStore([hidden])"


def key_store(config: Config) -> KeyStore | None:
    """Return what `ssl.keystore.*` and `ssl.key.password` give; None when there is no certificate.

    Raises `ConfigError` when they contradict each other, or the file cannot be used.

    """
    key, chain = _secret(config, "ssl.keystore.key"), _secret(config, "ssl.keystore.certificate.chain")
    key_password = _secret(config, "ssl.key.password")
    location: str | None = config["ssl.keystore.location"]
    if key is not None or chain is not None:
        _check_inline(config, "keystore", location)
        if key is None or chain is None:
            raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain belong together; give both")
        return KeyStore(
            _keys(key, "ssl.keystore.key"), _certificates(chain, "ssl.keystore.certificate.chain"), key_password
        )
    if not location:
        return None
    text, store_password = _read(config, "keystore", location)
    return KeyStore(_keys(text, location), _certificates(text, location), store_password or key_password)


def trusted_certificates(config: Config) -> str | None:
    """Return the PEM certificates of `ssl.truststore.*`; None when the system's are to be trusted.

    Raises as `key_store`.
    """
    inline = _secret(config, "ssl.truststore.certificates")
    location: str | None = config["ssl.truststore.location"]
    if inline is not None:
        _check_inline(config, "truststore", location)
        return _certificates(inline, "ssl.truststore.certificates")
    if not location:
        return None
    return _certificates(_read(config, "truststore", location)[0], location)


def _secret(config: Config, name: str) -> str | None:
    value: Any = config[name]
    return None if value is None else value.value


def _check_inline(config: Config, store: str, location: str | None) -> None:
    if location:
        raise ConfigError(f"ssl.{store}.location and the {store}'s PEM text are both given; give one")
    if config.is_given(f"ssl.{store}.type") and config.get_str(f"ssl.{store}.type").upper() != "PEM":
        raise ConfigError(
            f"a {store} given as text is PEM, not {config[f'ssl.{store}.type']}: set ssl.{store}.type=PEM"
        )


def _read(config: Config, store: str, location: str) -> tuple[str, str | None]:
    """Return the file as PEM, and the password that its key has then.

    Java, too, goes by what is in a file, not by JKS.
    """
    named = config.get_str(f"ssl.{store}.type").upper() if config.is_given(f"ssl.{store}.type") else None
    if named not in (None, "PEM", "PKCS12", "JKS"):
        raise ConfigError(f"ssl.{store}.type={named} is not supported; PEM, PKCS12 and JKS are")
    try:
        with open(location, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"ssl.{store}.location={location!r} cannot be read: {why}") from None
    password = _secret(config, f"ssl.{store}.password")
    if data.startswith(JCEKS):
        raise ConfigError(_how_to_convert(store, location))
    if data.startswith(JKS):
        return _pem_of_jks(data, password, _secret(config, "ssl.key.password"), store, location), None
    if named == "PEM" or (named is None and b"-----BEGIN " in data):
        if password is not None:
            raise ConfigError(
                f"ssl.{store}.password has no meaning for PEM files; the password of a private key is ssl.key.password"
            )
        return data.decode("utf-8", errors="replace"), None
    if not data.startswith(_DER_SEQUENCE):
        raise ConfigError(f"{location} is neither PEM, PKCS12 nor JKS")
    return _pem_of_pkcs12(data, password, store, location), None


def _how_to_convert(store: str, location: str) -> str:
    target = os.path.splitext(location)[0]
    return (
        f"{location} is a Java key store of the kind JCEKS, which only Java reads; convert it once:\n"
        f"  keytool -importkeystore -srckeystore {location} -destkeystore {target}.p12 -deststoretype PKCS12\n"
        f"and set ssl.{store}.location={target}.p12, ssl.{store}.type=PKCS12; or go on to PEM, which needs no extra:\n"
        f"  openssl pkcs12 -in {target}.p12 -out {target}.pem -nodes"
    )


def _pem_of_jks(data: bytes, password: str | None, key_password: str | None, store: str, location: str) -> str:
    try:
        found = read_java_key_store(data, password, key_password)
    except ValueError as problem:
        raise ConfigError(f"{location} cannot be read as JKS: {problem}; is ssl.{store}.password right?") from None
    # As in Java, a trust store may name the certificates of keys, too.
    return found.key + found.chain + found.trusted


def _pem_of_pkcs12(data: bytes, password: str | None, store: str, location: str) -> str:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise ConfigError(
            f"ssl.{store}.location={location!r} is PKCS12, which needs `pip install barnabas[tls]`; or convert it: "
            f"openssl pkcs12 -in {location} -out {os.path.splitext(location)[0]}.pem -nodes"
        ) from None
    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(f"{location} cannot be read as PKCS12: {error}; is ssl.{store}.password right?") from None
    parts = []
    if found.key is not None:
        parts.append(found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificates = ([found.cert] if found.cert is not None else []) + list(found.additional_certs)
    parts += [entry.certificate.public_bytes(Encoding.PEM) for entry in certificates]
    return b"".join(parts).decode()


def _certificates(text: str, where: str) -> str:
    return _blocks(text, where, "certificate", lambda kind: kind == _CERTIFICATE)


def _keys(text: str, where: str) -> str:
    return _blocks(text, where, "private key", lambda kind: kind.endswith("PRIVATE KEY"))


def _blocks(text: str, where: str, what: str, is_wanted: Any) -> str:
    # One line of a .properties file has spaces, or a backslash and n, where PEM has line ends.
    text = text.replace("\\n", "\n")
    found = [_with_line_ends(block.group()) for block in _PEM_BLOCK.finditer(text) if is_wanted(block.group(1))]
    if not found:
        raise ConfigError(f"{where} contains no {what} in PEM (-----BEGIN ...-----)")
    return "\n".join(found) + "\n"


def _with_line_ends(block: str) -> str:
    if "\n" in block:
        return block
    begin, body, end = re.fullmatch(r"(-----BEGIN [A-Z0-9 ]+-----)(.*)(-----END [A-Z0-9 ]+-----)", block).groups()  # type: ignore[union-attr]  # it is a _PEM_BLOCK
    return "\n".join([begin, *body.split(), end])

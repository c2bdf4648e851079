"""Kafka's SslFactory: an `ssl.SSLContext` of the settings `ssl.*`, for a client; and its parts, for a broker, too."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.config.config import Config
from barnabas.errors import ConfigError
from barnabas.network.security.key_stores import KeyStore, key_store, trusted_certificates

_VERSIONS = {
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
# OpenSSL always offers these, and Python has no call that changes it.
_TLS13_SUITES = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
_MADE_BY_CONTEXT = (
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
)


def create_ssl_context(config: Config) -> ssl.SSLContext:
    """Return the context of a client: `ssl.context` if it is given, else one that is made of the other settings.

    Raises `ConfigError` when the settings contradict each other, or a file or text in them cannot be used.

    """
    given = config["ssl.context"]
    if given is not None:
        return _checked(given, config)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.check_hostname = _does_check_hostname(config)
    set_versions(context, config.get_list("ssl.enabled.protocols"))
    set_cipher_suites(context, config.get_list("ssl.cipher.suites"))
    set_trust(context, config, ssl.Purpose.SERVER_AUTH)
    store = key_store(config)
    if store is not None:
        set_key(context, store)
    return context


def _checked(given: object, config: Config) -> ssl.SSLContext:
    if not isinstance(given, ssl.SSLContext):
        raise ConfigError(f"ssl.context must be an ssl.SSLContext, not {type(given).__name__}")
    both = [name for name in _MADE_BY_CONTEXT if config.is_given(name)]
    if both:
        raise ConfigError(f"ssl.context says all about TLS, so {', '.join(both)} would have no effect; remove it")
    return given


def _does_check_hostname(config: Config) -> bool:
    algorithm = config["ssl.endpoint.identification.algorithm"] or ""
    if algorithm.lower() not in ("", "https"):
        raise ConfigError(
            f"ssl.endpoint.identification.algorithm={algorithm!r} is not valid: https compares the broker's name with "
            "its certificate, an empty value does not"
        )
    return bool(algorithm)


def set_versions(context: ssl.SSLContext, names: list[str]) -> None:
    """Allow the versions of `ssl.enabled.protocols` and those between them. Raises ConfigError."""
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise ConfigError(f"ssl.enabled.protocols={','.join(names)} is not valid: there are {', '.join(_VERSIONS)}")
    versions = sorted(_VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def set_cipher_suites(context: ssl.SSLContext, names: list[str]) -> None:
    """Allow the suites of `ssl.cipher.suites`, in Java's or OpenSSL's spelling. Raises ConfigError."""
    if not names:
        return
    for_tls13 = _TLS13_SUITES & set(names)
    if for_tls13 and for_tls13 != _TLS13_SUITES:
        raise ConfigError(
            f"ssl.cipher.suites: of TLS 1.3's suites Python can only use all or none; name {', '.join(_TLS13_SUITES)}, "
            "or give an ssl.context"
        )
    older = [_openssl_name(name) for name in names if name not in _TLS13_SUITES]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    if not for_tls13:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        raise ConfigError(f"ssl.cipher.suites={','.join(names)}: OpenSSL knows none of these here") from None


def _openssl_name(name: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`, Java's and IANA's spelling, is OpenSSL's ECDHE-RSA-AES128-GCM-SHA256."""
    if "_WITH_" not in name:
        return name
    exchange, _, cipher = name.removeprefix("TLS_").removeprefix("SSL_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("_CBC_", "_").removesuffix("POLY1305_SHA256")
    cipher += "POLY1305" if cipher.endswith("CHACHA20_") else ""
    prefix = "" if exchange == "RSA" else f"{exchange}-"
    return (prefix + cipher).replace("_", "-")


def set_trust(context: ssl.SSLContext, config: Config, purpose: ssl.Purpose) -> None:
    """Trust what `ssl.truststore.*` names, else what the system trusts for a purpose. Raises ConfigError."""
    trusted = trusted_certificates(config)
    if trusted is None:
        context.load_default_certs(purpose)
        return
    # As in Java, every certificate in the trust store is trusted, be it a root or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the trust store holds a certificate that cannot be read: {error}") from None


def set_key(context: ssl.SSLContext, store: KeyStore) -> None:
    """Use a private key and its certificates. Raises ConfigError when they do not belong together."""
    # OpenSSL would ask on the terminal for a password that is missing.
    password = store.password or ""
    try:
        with _as_file(store.key + store.certificates) as path:
            context.load_cert_chain(path, password=lambda: password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"the key store's private key and certificates cannot be used: {_plain(error)}; does the key belong to the "
            "first certificate, and is ssl.key.password right?"
        ) from None


def _plain(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)


@contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """Put the text under a path, as Python's ssl wants it: in memory where the system can, else mode 0600."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("barnabas-key")
        try:
            os.write(descriptor, pem.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(prefix="barnabas-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(pem)
        yield path
    finally:
        os.unlink(path)

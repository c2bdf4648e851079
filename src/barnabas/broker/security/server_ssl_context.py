"""Kafka's SslFactory for listeners: an `ssl.SSLContext` of the settings `ssl.*`, and which files it was made of."""

from __future__ import annotations

import os
import ssl

from barnabas.config.config import Config
from barnabas.errors import ConfigError
from barnabas.network.security.key_stores import KeyStore, key_store
from barnabas.network.security.ssl_factory import set_cipher_suites, set_key, set_trust, set_versions

_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
#: Without `ssl.cipher.suites`: suites with forward secrecy only, unlike Java 17, which still takes those without.
_FORWARD_SECRECY = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20"
_FILES = ("ssl.keystore.location", "ssl.truststore.location")

#: What tells that a file was replaced: time of change, size, inode; None while it is not there.
Stamp = tuple[int, int, int] | None


def create_server_ssl_context(config: Config, store: KeyStore) -> ssl.SSLContext:
    """Return the context of a listener.

    Raises `ConfigError` when the settings contradict each other, or a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    set_versions(context, config.get_list("ssl.enabled.protocols"))
    suites = config.get_list("ssl.cipher.suites")
    if suites:
        set_cipher_suites(context, suites)
    else:
        context.set_ciphers(_FORWARD_SECRECY)
    context.verify_mode = _VERIFY[config.get_str("ssl.client.auth")]
    if context.verify_mode != ssl.CERT_NONE:
        set_trust(context, config, ssl.Purpose.CLIENT_AUTH)
        # A resumed session would bring back a certificate that has not been verified since.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    set_key(context, store)
    return context


def server_key_store(config: Config) -> KeyStore:
    """Return the private key and certificate of a listener. Raises `ConfigError` when there are none."""
    store = key_store(config)
    if store is None:
        raise ConfigError("TLS needs the broker's private key and certificate: set ssl.keystore.location")
    return store


def stamps_of_stores(config: Config) -> tuple[Stamp, ...]:
    """Return what changes when a file of the key store or trust store is replaced."""
    return tuple(_stamp(config[name]) for name in _FILES if config[name])


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

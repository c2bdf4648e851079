"""Who a listener's certificate says that it is, and which other may take its place (Kafka's CertificateEntries).

A key store that was replaced while the broker runs keeps the subject and all alternative names of the one before,
unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` say otherwise: clients check these names.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.security.distinguished_name import subject_of
from barnabas.errors import ConfigError
from barnabas.network.security.der import object_identifier, parse

if TYPE_CHECKING:
    from barnabas.config.config import Config
    from barnabas.network.security.key_stores import KeyStore

_END = "-----END CERTIFICATE-----"
_EXTENSIONS, _SUBJECT_ALTERNATIVE_NAME = 0xA3, "2.5.29.17"
#: Kinds of names whose content is text, by tag, and that of addresses.
_TEXTS, _ADDRESS = {0x81: "email", 0x82: "DNS", 0x86: "URI"}, 0x87


class CertificateIdentity(NamedTuple):
    """The subject, as `subject_of` writes it, and the alternative names, such as `DNS:localhost`."""

    subject: str
    names: frozenset[str]

    def check_replaces(self, old: CertificateIdentity, config: Config) -> None:
        """Raise `ConfigError` where this one may not take the place of the old one."""
        if self.subject.lower() != old.subject.lower() and not config.get_bool("ssl.allow.dn.changes"):
            raise ConfigError(
                f"Keystore DistinguishedName does not match: existing={{DN={old.subject}}}, "
                f"new={{DN={self.subject}}}; ssl.allow.dn.changes=true allows it"
            )
        missing = old.names - self.names
        if missing and not config.get_bool("ssl.allow.san.changes"):
            raise ConfigError(
                f"Keystore SubjectAltNames do not match: the new certificate lacks {', '.join(sorted(missing))}; "
                "ssl.allow.san.changes=true allows it"
            )


def identity_of(store: KeyStore) -> CertificateIdentity:
    """Return the identity of a store's first certificate, the broker's own. Raises `ConfigError`."""
    first = store.certificates.partition(_END)[0] + _END
    try:
        certificate = ssl.PEM_cert_to_DER_cert(first)
        return CertificateIdentity(subject_of(certificate), frozenset(_alternative_names(certificate)))
    except (ValueError, StopIteration) as problem:
        raise ConfigError(f"the broker's certificate cannot be read: {problem}") from None


def _alternative_names(certificate: bytes) -> list[str]:
    tbs_certificate = next(parse(certificate).elements())
    for field in tbs_certificate.elements():
        if field.tag != _EXTENSIONS:
            continue
        for extension in next(field.elements()).elements():
            kind, *_, value = extension.elements()
            if object_identifier(kind.content) == _SUBJECT_ALTERNATIVE_NAME:
                # An octet string with the names in it.
                return [_name(name.tag, name.content) for name in parse(value.content).elements()]
    return []


def _name(tag: int, content: bytes) -> str:
    if tag in _TEXTS:
        return f"{_TEXTS[tag]}:{content.decode('latin-1')}"
    if tag == _ADDRESS:
        import ipaddress

        return f"IP:{ipaddress.ip_address(content)}"
    return f"{tag:02x}:{content.hex()}"

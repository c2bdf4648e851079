"""The subject of a certificate as text, as Java's X500Principal writes it: by RFC 2253, last part first.

`ssl.principal.mapping.rules` and names in ACLs are written for that form.
"""

from __future__ import annotations

from barnabas.network.security.der import SET, Element, object_identifier, parse

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
#: Tags of strings → their encoding; for the rare ones it is what Java takes them for, right or wrong.
_STRINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "latin-1",
    0x1E: "latin-1",
}
_ESCAPED = ',=+<>#;"\\'
_VERSION = 0xA0


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER. Raises ValueError when it cannot be read."""
    tbs_certificate = next(parse(certificate).elements())
    fields = [field for field in tbs_certificate.elements() if field.tag != _VERSION]
    # serialNumber, signature, issuer, validity, subject (RFC 5280, section 4.1).
    if len(fields) < 5:
        raise ValueError("it has no subject")
    return ",".join(reversed([_relative(part) for part in fields[4].elements()]))


def _relative(part: Element) -> str:
    if part.tag != SET:
        raise ValueError("its subject is not made of sets")
    return "+".join(_attribute(attribute) for attribute in part.elements())


def _attribute(attribute: Element) -> str:
    kind, value = attribute.elements()
    oid = object_identifier(kind.content)
    encoding = _STRINGS.get(value.tag)
    if oid not in _KEYWORDS or encoding is None:
        return f"{_KEYWORDS.get(oid, oid)}=#{value.encoded.hex()}"
    return f"{_KEYWORDS[oid]}={_escaped(value.content.decode(encoding))}"


def _escaped(text: str) -> str:
    out = "".join(_escaped_letter(letter) for letter in text)
    inner = out.strip(" \r")
    before, _, after = out.partition(inner) if inner else (out, "", "")
    return "".join(f"\\{letter}" for letter in before) + inner + "".join(f"\\{letter}" for letter in after)


def _escaped_letter(letter: str) -> str:
    if letter == "\0":
        return "\\00"
    return f"\\{letter}" if letter in _ESCAPED else letter

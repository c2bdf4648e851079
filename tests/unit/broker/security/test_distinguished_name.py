"""Names as Java 17's X500Principal.getName(RFC2253) writes them; the expectations were made by it."""

from __future__ import annotations

import pytest

from barnabas.broker.security.distinguished_name import subject_of

NAMES = [
    (
        "3043310b3009060355040613024e4c31163014060355040a0c0d4578616d706c652c20496e632e310c300a060355040b"
        "0c03522b44310e300c06035504030c05616c696365",
        "CN=alice,OU=R\\+D,O=Example\\, Inc.,C=NL",
    ),
    (
        "304231133011060a0992268993f22c64011916036f726731173015060a0992268993f22c64011916076578616d706c65"
        "31123010060a0992268993f22c6401010c027531",
        "UID=u1,DC=example,DC=org",
    ),
    (
        "301b31193009060355040513023737300c06035504030c05613d622363",
        "2.5.4.5=#13023737+CN=a\\=b\\#c",
    ),
    (
        "30313114301206092a864886f70d01090116056140622e633119301706035504030c10206c65616420616e6420747261696c20",
        "CN=\\ lead and trail\\ ,1.2.840.113549.1.9.1=#16056140622e63",
    ),
    (
        "3048311b301906035504030c124ac3bc7267656e20227822203c793e3b5c7a310e300c06035504090c05312057617931"
        "0d300b06035504070c04546f776e310a300806035504080c0153",
        'ST=S,L=Town,STREET=1 Way,CN=Jürgen \\"x\\" \\<y\\>\\;\\\\z',
    ),
    (
        "301e310f300d06035504030c06237374617274310b3009060355040c0c024472",
        "2.5.4.12=#0c024472,CN=\\#start",
    ),
    (
        "3010310e300c06035504030c056e756c0078",
        "CN=nul\\00x",
    ),
    (
        "3011310f300d06035504031e060062006d0070",
        "CN=\\00b\\00m\\00p",
    ),
    (
        "300d310b300906035504030c022020",
        "CN=\\ \\ ",
    ),
]


def der(tag: int, content: bytes) -> bytes:
    length = len(content)
    size = bytes([length]) if length < 128 else b"\x82" + length.to_bytes(2, "big")
    return bytes([tag]) + size + content


def certificate(subject: bytes) -> bytes:
    """As much of a certificate as stands before the subject, and one field behind it."""
    number, empty = der(2, b"\x01"), der(0x30, b"")
    return der(0x30, der(0x30, der(0xA0, number) + number + empty * 3 + subject + empty) + empty)


@pytest.mark.parametrize(("subject", "name"), NAMES)
def test_names_are_written_as_java_writes_them(subject: str, name: str) -> None:
    assert subject_of(certificate(bytes.fromhex(subject))) == name


def test_what_is_no_certificate_is_an_error() -> None:
    whole = certificate(bytes.fromhex(NAMES[0][0]))
    for end in range(len(whole)):
        with pytest.raises((ValueError, StopIteration)):
            subject_of(whole[:end])

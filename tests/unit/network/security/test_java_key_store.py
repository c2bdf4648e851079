"""JKS files that keytool of Java 17 has made (`-storetype JKS`), and what is left of them when they are damaged."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from barnabas.network.security.java_key_store import read_java_key_store

KEY_STORE = base64.b64decode("""
/u3+7QAAAAIAAAABAAAAAQAGYnJva2VyAAABogXcbjQAAAB/MH0wDgYKKwYBBAEqAhEBAQUABGufw4gQv0q39XODY6NVw0enkIBG
lJf+oSomJmUAT0MZberBIW/u0gI25fQHlxobba5qFp5NWdeRdCCRiY/D4ruoztFYD5/xloGv2RW4KkAh0geO7L37DEqCNK8vTcMU
NQ8zywWKkZm5A1bUWwAAAAEABVguNTA5AAABZDCCAWAwggEFoAMCAQICCDxX9jNpbQ67MAoGCCqGSM49BAMCMCMxEDAOBgNVBAoT
B0V4YW1wbGUxDzANBgNVBAMTBmJyb2tlcjAgFw0yNjExMjMwMDQ0MjFaGA8yMTI2MTAzMDAwNDQyMVowIzEQMA4GA1UEChMHRXhh
bXBsZTEPMA0GA1UEAxMGYnJva2VyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0Xi0fXNdJCCLIJ5K8zChwme4dlOne4ZQAHXv
ekDRsyOGbrseyR3sqm8nutm+H684t/Xg48eNX9Lak7PQi9Iuu6MhMB8wHQYDVR0OBBYEFGYoHIO1g0o/Ry3/z2pq/BsLp4GZMAoG
CCqGSM49BAMCA0kAMEYCIQDFQeeJVq4yFN98CsEc0jiintuqeIFMusoMJCIr4Dv2TwIhALHiTH4KptZAey4n/TwNKfLF0pACdweD
YgXtcm8ZEQglSD0Hn3dKQHPRGME6ze3aiZvmR9k=
""")
TRUST_STORE = base64.b64decode("""
/u3+7QAAAAIAAAABAAAAAgACY2EAAAGiBdxxRgAFWC41MDkAAAFkMIIBYDCCAQWgAwIBAgIIPFf2M2ltDrswCgYIKoZIzj0EAwIw
IzEQMA4GA1UEChMHRXhhbXBsZTEPMA0GA1UEAxMGYnJva2VyMCAXDTI2MTEyMzAwNDQyMVoYDzIxMjYxMDMwMDA0NDIxWjAjMRAw
DgYDVQQKEwdFeGFtcGxlMQ8wDQYDVQQDEwZicm9rZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATReLR9c10kIIsgnkrzMKHC
Z7h2U6d7hlAAde96QNGzI4Zuux7JHeyqbye62b4frzi39eDjx41f0tqTs9CL0i67oyEwHzAdBgNVHQ4EFgQUZigcg7WDSj9HLf/P
amr8GwungZkwCgYIKoZIzj0EAwIDSQAwRgIhAMVB54lWrjIU33wKwRzSOKKe26p4gUy6ygwkIivgO/ZPAiEAseJMfgqm1kB7Lif9
PA0p8sXSkAJ3B4NiBe1ybxkRCCVmCEANyFgAZ4EbiP60j+VfNI4YGQ==
""")


def test_a_key_with_its_certificate_belong_together(tmp_path: Path) -> None:
    found = read_java_key_store(KEY_STORE, "storepw", "keypw1")
    assert found.trusted == ""
    (tmp_path / "key.pem").write_text(found.key + found.chain)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "key.pem")


def test_a_trust_store_needs_no_password() -> None:
    found = read_java_key_store(TRUST_STORE, None, None)
    assert (found.key, found.chain) == ("", "")
    assert found.trusted == read_java_key_store(KEY_STORE, None, "keypw1").chain


@pytest.mark.parametrize(
    ("data", "password", "key_password", "says"),
    [
        (KEY_STORE, "other", "keypw1", "its password is wrong"),
        (KEY_STORE, "storepw", None, "password of its private key is wrong"),
        (KEY_STORE, "storepw", "other", "password of its private key is wrong"),
        (TRUST_STORE[:-30] + TRUST_STORE[-20:], "storepw", None, "its password is wrong, or the file was changed"),
        (TRUST_STORE[:100] + TRUST_STORE[-20:], None, None, "it is cut"),
        (b"\xfe\xed\xfe\xed\0\0\0\3" + TRUST_STORE[8:], None, None, "version 1 or 2"),
        (b"PK", None, None, "no JKS file"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, password: str | None, key_password: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        read_java_key_store(data, password, key_password)
    assert "storepw" not in str(caught.value)
    assert "keypw" not in str(caught.value)


def test_no_damaged_file_is_anything_but_an_error() -> None:
    for position in range(len(TRUST_STORE) - 20):
        for data in (TRUST_STORE[:position], TRUST_STORE[:position] + b"\xff" + TRUST_STORE[position + 1 :]):
            try:
                read_java_key_store(data, None, "keypw1")
            except ValueError:
                continue

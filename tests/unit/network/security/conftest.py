"""What costs some 50 ms to make, once for all tests of this folder: certificates and keys; and a token endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.peers.secure_kafka import Certificates
from tests.support.token_endpoint import TokenEndpoint, ec_key, pem, rsa_key, serving
from tests.unit.network.security.jwt_login import written


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder: Path = tmp_path_factory.mktemp("certificates")
    return Certificates.make(folder)


@pytest.fixture(scope="session")
def rsa_private() -> rsa.RSAPrivateKey:
    return rsa_key()


@pytest.fixture(scope="session")
def ec_private() -> ec.EllipticCurvePrivateKey:
    return ec_key()


@pytest.fixture
def endpoint(rsa_private: rsa.RSAPrivateKey, ec_private: ec.EllipticCurvePrivateKey) -> Iterator[TokenEndpoint]:
    """One that trusts the assertions of both keys."""
    with serving(TokenEndpoint(rsa_private, {"RS256": rsa_private, "ES256": ec_private})) as running:
        yield running


@pytest.fixture
def key_file(tmp_path: Path, rsa_private: rsa.RSAPrivateKey) -> Path:
    return written(tmp_path / "key.pem", pem(rsa_private))

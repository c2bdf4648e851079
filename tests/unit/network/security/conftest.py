"""Certificates for the tests of TLS: made once, they cost some 50 ms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.secure_kafka import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder: Path = tmp_path_factory.mktemp("certificates")
    return Certificates.make(folder)

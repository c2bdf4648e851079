from __future__ import annotations

import pytest

from tests.support.core_broker import CoreBroker, CoreClient


@pytest.fixture
def broker() -> CoreBroker:
    return CoreBroker()


@pytest.fixture
def client(broker: CoreBroker) -> CoreClient:
    return broker.connect()

"""Fixtures for tests of the producer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.client.producer.storing_broker import StoringBroker


@pytest.fixture
def broker() -> Iterator[StoringBroker]:
    with StoringBroker() as started:
        yield started
        started.gate.set()

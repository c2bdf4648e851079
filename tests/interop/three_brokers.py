"""One broker and three: every suite of other people's clients runs on both."""

from __future__ import annotations

import pytest

from barnabas import Broker

#: A cluster of three is slow to start and to write to; its form of each test runs nightly.
BROKERS = [pytest.param(1, id=pytest.HIDDEN_PARAM), pytest.param(3, id="three-brokers", marks=pytest.mark.slow)]


def count_of(broker: Broker) -> int:
    """How many brokers there are."""
    return len(broker.bootstrap_servers.split(","))

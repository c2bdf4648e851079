"""Random requests to Apache Kafka's controller and to ours, in the same run: the same records, the same answers."""

from __future__ import annotations

import pytest

from tests.peers import apache_kafka
from tests.support.controller_scenarios import differences
from tools.controller_vectors import CONFIG, levels, recorded

pytestmark = [pytest.mark.slow]


@pytest.mark.skipif(apache_kafka.why_not() is not None, reason=str(apache_kafka.why_not()))
@pytest.mark.parametrize("seed", range(101, 105))
def test_the_same_requests_give_the_same_records_and_responses(seed: int) -> None:
    found = differences(recorded(seed), levels(seed), CONFIG)
    assert not found, "\n".join(found)

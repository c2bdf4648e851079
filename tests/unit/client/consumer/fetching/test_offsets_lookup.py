"""Looking offsets up for the application: what a time-out says."""

from __future__ import annotations

from collections import deque

import pytest

from barnabas import TopicPartition
from barnabas.errors import KafkaStorageError, KafkaTimeoutError
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster


def test_a_look_up_that_times_out_repeats_what_the_broker_said_last() -> None:
    cluster = ScriptedCluster()
    cluster.errors[ApiKey.LIST_OFFSETS] = deque([KafkaStorageError.code] * 1000)
    consumer = cluster.consumer()

    with pytest.raises(KafkaTimeoutError, match=r"t-0 were not found within 3 s; .*KAFKA_STORAGE_ERROR"):
        consumer.end_offsets([TopicPartition("t", 0)], timeout=3)
